import { randomBytes } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";

/** A fresh folder for the tests of a file; call it outside of tests. It is removed after the last of them. */
export function testFolder(): string {
  const folder = join(tmpdir(), `prs-archive-${randomBytes(8).toString("hex")}`);
  beforeAll(async () => {
    await mkdir(folder);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
