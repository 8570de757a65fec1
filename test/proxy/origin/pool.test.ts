import { afterEach, beforeEach, expect, test } from "vitest";
import { cdnOrigin } from "../../../proxy/origin/origin.ts";
import { sha256 } from "../../../snapshots/store/sha256.ts";
import { type FaultyOrigin, good, startFaultyOrigin } from "../../helpers/attack/proxy-origin.ts";
import { until } from "../../helpers/http/proxy-client.ts";

/** The sockets of the cdn's pool. */
const sockets = 64;

const body = Buffer.from("{}");
const object = { hash: sha256(body), bytes: body.length };

let origin: FaultyOrigin;
let fetched: () => Promise<string>;
let close: () => void;
beforeEach(async () => {
  origin = await startFaultyOrigin(async () => body);
  const cdn = cdnOrigin(origin.url, { deadlineSeconds: 3 });
  fetched = async () => String(await cdn.fetch(object).catch(({ code }) => code));
  close = () => cdn.close();
});
afterEach(async () => {
  close();
  await origin.stop();
});

test("fetches that the origin leaves hanging, or that wait for a free socket, end with their deadline", async () => {
  origin.behave = () => {};
  const waiting = Array.from({ length: sockets + 10 }, fetched);
  await until("all sockets of the pool to be in use", () => origin.requests.length >= sockets);
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["UPSTREAM_TIMEOUT"]));

  // Had one of them kept its socket or its place in the queue, the pool would be smaller for ever.
  await until("the origin to see all connections closed", () => origin.open() === 0);
  origin.behave = good;
  await until("the origin to be asked again", async () => (await fetched()) === "{}");
});
