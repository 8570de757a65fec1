import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { open, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Client, linesFromEnd } from "../../proxy/site/client/client.ts";
import { fileOf, LineWriter, linesOf, wholeLines } from "../../scripts/copy/lines.ts";
import { listenLocally } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();

const seed = Date.now() % 2 ** 31;

// What is merged is seen in sync.test.ts, and in the world, where copies follow every kind of change.
describe("a file of lines", () => {
  const line = fc.oneof(
    {
      weight: 20,
      arbitrary: fc.string({ unit: "binary", maxLength: 40 }).map((text) => text.replaceAll("\n", "")),
    },
    { weight: 1, arbitrary: fc.integer({ min: 60_000, max: 400_000 }).map((length) => "ü".repeat(length)) },
  );

  const files = fc.array(line, { maxLength: 60, size: "max" });

  test(`gives back what was written, from either end (seed ${seed})`, async () => {
    const path = join(folder, "lines");
    await fc.assert(
      fc.asyncProperty(files, fc.boolean(), async (lines, binary) => {
        const writer = new LineWriter(await open(path, "w"));
        for (const text of lines) await writer.write(binary ? Buffer.from(text) : text);
        await writer.close();
        expect(await readFile(path, "utf8")).toBe(lines.map((text) => `${text}\n`).join(""));
        expect(await wholeLines(path)).toBe(lines.length);
        // Each is read before the next is asked for, since they come in one buffer.
        const found: string[] = [];
        for await (const text of linesOf(path)) found.push(text.toString());
        expect(found).toEqual(lines.map((text) => Buffer.from(text).toString()));
        await using file = await fileOf(path);
        for await (const text of linesFromEnd(file)) expect(Buffer.from(text).toString()).toBe(found.pop());
        expect(found).toEqual([]);
      }),
      { seed, numRuns: 20 },
    );
  });

  test("is not read when its last line has no end", async () => {
    await writeFile(join(folder, "torn"), "a\nb");
    const read = async () => {
      for await (const line of linesOf(join(folder, "torn"))) expect(line.toString()).toBe("a");
    };
    await expect(read()).rejects.toThrow("no end");
    expect(await wholeLines(join(folder, "torn"))).toBe(1);
  });
});

test("a server that sends faster than lines are taken is held up", async () => {
  const line = randomBytes(48 * 1024).toString("base64");
  const lines = 512;
  let sent = 0;
  const server = createServer(async (_request, response) => {
    response.writeHead(200, {
      "content-type": "application/x-ndjson",
      "content-encoding": "gzip",
      "x-count": String(lines),
      "x-snapshot-id": "s",
    });
    const bytes = gzipSync(`${line}\n`, { level: 1 });
    for (; sent < lines; sent += 1) if (!response.write(bytes)) await once(response, "drain");
    response.end();
  });
  const port = await listenLocally(server);
  const client = new Client({ url: `http://127.0.0.1:${port}` });
  let [taken, ahead] = [0, 0];
  for await (const { text } of client.rows()) {
    expect(text === line).toBe(true);
    // Time in which the server could send far more than one line.
    for (let turn = 0; turn < 4; turn += 1) await nextTurn();
    taken += 1;
    ahead = Math.max(ahead, sent - taken);
  }
  server.close();
  expect(taken).toBe(lines);
  // The sockets of the system take some megabytes.
  expect(ahead).toBeLessThan(lines / 2);
});
