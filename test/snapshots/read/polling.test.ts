import { expect, test } from "vitest";
import { createPoller } from "../../../snapshots/read/polling.ts";
import { until } from "../../helpers/http/proxy-client.ts";

test("a poller tells a round that does not end, does not begin it twice, and takes it up when it ends", async () => {
  const stuck = Promise.withResolvers<void>();
  const told: string[] = [];
  let [started, others, now] = [0, 0, 1000];
  const poller = createPoller(
    [
      {
        name: "stuck",
        run: () => {
          started += 1;
          return started === 1 ? stuck.promise : Promise.resolve();
        },
      },
      { name: "other", run: async () => void others++ },
    ],
    0.05,
    () => now,
    (task, error) => {
      if (task === "stuck") told.push(String(error));
    },
  );
  await poller.once();
  expect([told, others]).toEqual([["Fault: no answer within 0.05 s"], 1]);
  poller.start(0.001);
  now = 8000;
  await until("polls to go on beside the one that hangs", () => others > 10 && told.length > 2);
  expect(told.slice(1, 3)).toEqual(Array(2).fill("Error: the round before has not ended"));
  expect([started, poller.age()]).toEqual([1, 7]);
  stuck.resolve();
  await until("the poll that hung to start again", () => started > 1 && poller.age() === 0);
  expect(told.at(-1)).toBe("undefined");
  now = 7000;
  expect(poller.age()).toBe(0);
  poller.stop();
});

test("a poller runs nothing before its time or once it was stopped, and holds no process up", async () => {
  let [stopped, others, late] = [0, 0, 0];
  const polling = (run: () => Promise<void>, seconds: number) => {
    const poller = createPoller([{ name: "", run }], 1, Date.now, () => {});
    const before = process.getActiveResourcesInfo();
    poller.start(seconds);
    expect(process.getActiveResourcesInfo()).toEqual(before);
    return poller;
  };
  // The other one tells how the time goes by.
  const clock = polling(async () => void others++, 0.001);
  const poller = polling(async () => void stopped++, 0.001);
  const rare = polling(async () => void late++, 3600);
  await until("both to run", () => stopped > 0 && others > 0);
  poller.stop();
  const [ran, seen] = [stopped, others];
  await until("the other one to go on", () => others > seen + 5);
  expect([stopped, late]).toEqual([ran, 0]);
  clock.stop();
  rare.stop();
});
