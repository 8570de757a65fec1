import { execFileSync } from "node:child_process";
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "prs-disk-"));

/** A file system of its own of 600 kB; undefined, and a line that says so, where none can be mounted. */
export const smallDisk: string | undefined = mount() ? folder : undefined;

/** Runs a program as root, where that needs no password. */
function system(line: string): void {
  const [command, ...args] = [...(process.getuid?.() === 0 ? [] : ["sudo", "-n"]), ...line.split(" ")];
  execFileSync(command!, args, { stdio: "ignore" });
}

function mount(): boolean {
  try {
    system(`mount -t tmpfs -o size=600k,mode=1777 tmpfs ${folder}`);
    return true;
  } catch {
    console.warn("Tests of a full disk are skipped: they need the right to mount one");
    return false;
  }
}

afterAll(() => {
  if (smallDisk) system(`umount ${folder}`);
  rmdirSync(folder);
});
