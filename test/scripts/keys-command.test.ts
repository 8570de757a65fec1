import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { issueKey, isWellFormedKey, readKeys } from "../../snapshots/keys/keys.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { expectEnd, runCommand } from "../helpers/publish/commands.ts";

let directory: string;
let storage: Storage;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "prs-keys-"));
  storage = directoryStorage(join(directory, "store"));
});
afterEach(() => rm(directory, { recursive: true }));

const now = new Date("2026-03-01T12:00:00.000Z");
const request = { plan: "aegis", owner: "acme" } as const;

describe("npm run keys", () => {
  const run = (...args: string[]) => runCommand("keys", args, { from: directory });

  test("issues a key that is printed once, alone on stdout", async () => {
    const line = "issue --plan aegis --owner acme --store store --create";
    const { stdout, stderr, code } = await run(...line.split(" "));
    expect(code).toBe(0);
    expect(isWellFormedKey(stdout.trim())).toBe(true);
    expect(stderr).not.toContain(stdout.trim());
    const listed = await run("list", "--store", "store");
    expect(listed.stdout).toMatch(/^[0-9a-f]{16} {2}aegis {2}100000\/day {2}acme {2}issued at .*Z\n$/);
    expect(listed.stdout + listed.stderr).not.toContain(stdout.trim());
    expect(await readdir(join(directory, "store", "keys"))).toHaveLength(1);
  });

  test("writes a profile for Delta Sharing that only its owner may read, and replaces none", async () => {
    const env = { API_URL: "https://scores.example.org/prs/" };
    const issue = (plan: string, more: NodeJS.ProcessEnv = env) => {
      const line = `issue --plan ${plan} --owner acme --expires 2030-01-01 --profile acme.share --store store --create`;
      return runCommand("keys", line.split(" "), { from: directory, env: more });
    };
    // A store that takes no key leaves nothing in the way of the next try.
    await writeFile(join(directory, "file"), "");
    const nowhere = "issue --plan aegis --owner acme --profile acme.share --store file --create".split(" ");
    expect((await runCommand("keys", nowhere, { from: directory, env })).code).toBe(5);
    const { stdout, stderr, code } = await issue("aegis");
    expect([code, stderr.includes(stdout.trim())]).toEqual([0, false]);
    const path = join(directory, "acme.share");
    expect(JSON.parse(await readFile(path, "utf8"))).toEqual({
      shareCredentialsVersion: 1,
      endpoint: "https://scores.example.org/prs/delta-sharing/",
      bearerToken: stdout.trim(),
      expirationTime: "2030-01-02T00:00:00.000Z",
    });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const refused = [await issue("aegis"), await issue("developer"), await issue("aegis", { API_URL: "" })];
    for (const each of refused) expectEnd(each, 2, "--profile");
    expect((await readKeys(storage)).records).toHaveLength(1);
  });

  test("issue, list and revoke speak JSON; a day of expiry is the last one", async () => {
    const line = "issue --plan developer --quota 5 --expires 2030-01-01 --store store --create --json";
    const issued = JSON.parse((await run(...line.split(" "), "--owner", "dev co")).stdout);
    const expiresAt = "2030-01-02T00:00:00.000Z";
    expect(issued).toMatchObject({ plan: "developer", owner: "dev co", quota: 5, expiresAt });
    const at = "2029-05-01T10:00:00+02:00";
    const revoked = await run("revoke", issued.id, "--at", at, "--store", "store", "--json");
    expect(JSON.parse(revoked.stdout)).toEqual({ id: issued.id, revokedAt: "2029-05-01T08:00:00.000Z" });
    const { keys } = JSON.parse((await run("list", "--store", "store", "--json")).stdout);
    const { key, ...shown } = issued;
    expect(keys).toEqual([{ ...shown, revokedAt: "2029-05-01T08:00:00.000Z" }]);
    expect(key).toMatch(/^prs_live_/);
  });

  test("rotate prints the new key alone on stdout, and says when the old one ends", async () => {
    const { key, record } = await issueKey(storage, request, now);
    const before = Date.now();
    const { code, stdout, stderr } = await run("rotate", record.id, "--grace", "90m", "--store", "store");
    expect([code, isWellFormedKey(stdout.trim())]).toEqual([0, true]);
    expect(stderr).not.toContain(stdout.trim());
    expect(stdout + stderr).not.toContain(key);
    const { revocations } = await readKeys(storage);
    const { revokedAt } = revocations.get(record.id)!;
    expect(stderr).toContain(`key ${record.id}, which ends at ${revokedAt}`);
    expect(Date.parse(revokedAt) - before).toBeGreaterThanOrEqual(90 * 60_000);
  });

  test("lists owners so that nothing of them acts on the terminal", async () => {
    const owner = "a\u001b[2J\u009b31m\u202eb\nid  aegis";
    await issueKey(storage, { plan: "aegis", owner }, now);
    const { stdout } = await run("list", "--store", "store");
    expect(stdout).toContain("  a\\u{1b}[2J\\u{9b}31m\\u{202e}b\\u{a}id  aegis  issued");
    expect(stdout.match(/\n/g)).toHaveLength(1);
  });

  test("ends with 5 when the store cannot be used", async () => {
    await writeFile(join(directory, "file"), "");
    const { stderr, code } = await run("issue", "--plan", "aegis", "--owner", "o", "--store", "file");
    expect([code, stderr.includes("file")]).toEqual([5, true]);
  });
});
