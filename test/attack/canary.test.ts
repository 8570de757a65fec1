import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { issueKey } from "../../snapshots/keys/keys.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { bytesBelow, found, requestsWith, spellingsOf } from "../helpers/attack/canaries.ts";
import { type Attacked, archive, startAttacked } from "../helpers/attack/target.ts";
import { answersIn } from "../helpers/attack/wire.ts";
import { respond } from "../helpers/http/faulty-origin.ts";
import { bearer, call, outcome, raw, until } from "../helpers/http/proxy-client.ts";
import { startProxyCommand } from "../helpers/http/proxy-command.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { freePort } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
let attacked: Attacked;
let canaries: string[];
let received: string[];
beforeEach(async () => {
  attacked = await startAttacked({
    quotaOnFailure: "closed",
    trustProxy: { hops: 1 },
    // Some bodies are announced and never end.
    limits: { headSeconds: 1, requestSeconds: 1 },
  });
  const { aegis, developer, revoked, unknown } = attacked.keys;
  canaries = [
    aegis,
    developer,
    revoked,
    unknown,
    `${unknown.slice(0, -1)}${unknown.endsWith("0") ? "1" : "0"}`,
  ];
  received = [];
});
afterEach(() => attacked.stop());

/** Sends every request with every key, or with one of them in turn; an answer's body is taken out of its coding. */
async function attack(inTurn: boolean): Promise<void> {
  const all = canaries.flatMap((key, place) =>
    requestsWith(key).filter((_, n) => !inTurn || n % canaries.length === place),
  );
  // At once: some of them take the second that they have to end.
  const answers = await Promise.all(all.map((bytes) => attacked.proxy.raw(bytes)));
  for (const text of answers) received.push(text, ...answersIn(text).map((answer) => answer.text));
}

/** Checks that no key is to be found anywhere: not in what was answered, logged, asked or stored. */
async function expectNoTrace(): Promise<void> {
  const { proxy, origin } = attacked;
  const spellings = spellingsOf(canaries);
  // What was logged last is there, so all before it is.
  const { "x-request-id": id } = (await proxy.get("/healthz")).headers;
  await proxy.logs(String(id));
  const files = await bytesBelow(proxy.directory);
  expect(files).toContain(sha256(attacked.keys.aegis));
  for (const texts of [received, proxy.logged, origin.requests, [files]])
    expect(found(spellings, texts.join("\n"))).toEqual([]);
  // The search finds what it is to find, the key as it is and in Base64, in any case.
  const sent = requestsWith(canaries[0]!).join("\n").toUpperCase();
  expect(found(spellings, sent).length).toBeGreaterThan(3);
}

const ask = async (path: string) =>
  outcome(await attacked.proxy.get(path, { headers: bearer(attacked.keys.aegis) }));

const scores = "/api/v1/scores";
/** What breaks, an address and what it answers from then on. */
const failures: [what: string, path: string, expected: string, fail: () => unknown][] = [
  ["nothing", scores, "200", () => {}],
  ["the origin, which is down,", scores, "502 UPSTREAM_ERROR", () => attacked.origin.stop()],
  [
    ...(["the origin, which sends others' bytes,", scores, "502 UPSTREAM_ERROR"] as const),
    () => {
      attacked.origin.behave = (socket) => respond(socket, "200 OK", ["X-Secret: 1"], "<Error>no</Error>");
    },
  ],
  [
    ...(["the quota store", archive, "503 QUOTA_UNAVAILABLE"] as const),
    () => {
      const file = new DatabaseSync(join(attacked.proxy.directory, "quota.sqlite"));
      file.exec("DROP TABLE quota");
      file.close();
    },
  ],
  [
    ...(["the archive, whose pages are gone,", archive, "503 SNAPSHOT_UNAVAILABLE"] as const),
    async () => {
      const { storage } = attacked.proxy;
      for await (const { key } of storage.list(layout.page.prefix)) await storage.delete(key);
      for await (const { key } of storage.list(layout.rows.prefix))
        await storage.put(key, Buffer.from("broken"));
    },
  ],
  [
    // An invalid time throws where nobody expects it.
    ...(["the clock", scores, "500 INTERNAL"] as const),
    () => {
      attacked.proxy.clock.now = Number.NaN;
    },
  ],
  [
    ...(["the store's newest commit", scores, "200"] as const),
    async () => {
      await attacked.proxy.storage.put(layout.commit(2), Buffer.from("{}"));
      await attacked.proxy.logs("polling the store failed");
    },
  ],
];

describe("a key leaves no trace but its digest", () => {
  test.each(failures)("while %s fails", async (what, path, expected, fail) => {
    await fail();
    // On a busy machine a request may take longer than the second that it has here.
    await until(`${expected} for ${path}`, async () => (await ask(path)) === expected);
    // Every key at every place is tried once, where nothing fails.
    const inTurn = what !== "nothing";
    await attack(inTurn);
    expect(received.length).toBeGreaterThan(inTurn ? 200 : 1000);
    await expectNoTrace();
  });

  test("in what the process writes and counts", async () => {
    const storage = directoryStorage(join(folder, "store"));
    await publishArchive(storage);
    const { key } = await issueKey(storage, { plan: "aegis", owner: "acme" }, new Date());
    const metricsPort = await freePort();
    const command = startProxyCommand(folder, { LOG_LEVEL: "trace", METRICS_PORT: String(metricsPort) });
    const port = await command.listening();
    received.push(...(await Promise.all(requestsWith(key).map((bytes) => raw(port, bytes)))));
    const metrics = (await call(metricsPort, "/metrics")).text;
    expect(metrics).toContain(`route="${archive}"`);
    const files = await bytesBelow(folder);
    command.child.kill("SIGTERM");
    expect(await command.ended).toBe(0);
    const output = command.output.out + command.output.err;
    expect(output).toContain('"draining"');
    for (const text of [...received, metrics, files, output])
      expect(found(spellingsOf([key]), text)).toEqual([]);
  });
});
