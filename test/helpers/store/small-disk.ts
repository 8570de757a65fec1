import { execFileSync } from "node:child_process";
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/**
 * Mounts a small file system for the tests of a file; call it outside of tests. Returns its folder, or undefined where
 * none can be mounted, and says so.
 */
export function mountSmallDisk(kilobytes = 800): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "prs-disk-"));
  const mounted = mount(folder, kilobytes);
  afterAll(() => {
    if (mounted) system(`umount ${folder}`);
    rmdirSync(folder);
  });
  return mounted ? folder : undefined;
}

/** Runs a program as root, where that needs no password. */
function system(line: string): void {
  const [command, ...args] = [...(process.getuid?.() === 0 ? [] : ["sudo", "-n"]), ...line.split(" ")];
  execFileSync(command!, args, { stdio: "ignore" });
}

function mount(folder: string, kilobytes: number): boolean {
  try {
    system(`mount -t tmpfs -o size=${kilobytes}k,mode=1777 tmpfs ${folder}`);
    return true;
  } catch {
    console.warn("Tests of a full disk are skipped: they need the right to mount one");
    return false;
  }
}
