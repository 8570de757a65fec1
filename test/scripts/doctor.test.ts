import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { expectEnd, runCommand } from "../helpers/publish/commands.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// What else a doctor finds is in sessions/doctor.txt.

const folder = testFolder();

/** Runs the doctor over a file of variables. */
async function examine(...variables: string[]) {
  await writeFile(join(folder, "given.env"), variables.join("\n"));
  const env = { AWS_REGION: "x", SNAPSHOT_STORE: "", STORE: "" };
  return runCommand("doctor", ["--env", "given.env"], { from: folder, env });
}

test("the doctor tells of a publish that is too long ago, and of a clock that is behind", async () => {
  await publishArchive(directoryStorage(join(folder, "store")), { now: () => new Date() });
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 86_400_000 });
  const late = await examine("SNAPSHOT_STORE=store", "STALE_AFTER_SECONDS=3600").finally(vi.useRealTimers);
  const long = /^wrong {3}store: the last publish was at .*, longer ago than STALE_AFTER_SECONDS/m;
  expect(late).toMatchObject({ code: 1, stdout: expect.stringMatching(long) });
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 86_400_000 });
  const early = await examine("STORE=store").finally(vi.useRealTimers);
  expect(early.stdout).toMatch(/^wrong {3}clock: .*, and the newest commit's time is /m);
});

test("the doctor tells of a store that does not answer", async () => {
  // AWS's client reads its keys from the environment of the process.
  vi.stubEnv("AWS_ACCESS_KEY_ID", "test");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "test");
  const ended = await examine("SNAPSHOT_STORE=s3://b-b", "AWS_ENDPOINT_URL_S3=http://127.0.0.1:9");
  vi.unstubAllEnvs();
  expect(ended.stdout).toMatch(/^wrong {3}store: .*does it answer this machine\?$/m);
  expectEnd(ended, 1);
});
