import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Fault, faults } from "./faults.ts";

// Plants faults in copies of the project, one in each, and tells after how many worlds each is found:
// node --import ./scripts/installed.js test/world/planted.ts [NAME…]

const root = new URL("../..", import.meta.url).pathname;
const copied = ["package.json", "scripts", "snapshots", "proxy", "schemas", "test/world", "test/helpers"];
const most = 20_000;

function search({ file, text, fault }: Fault): string {
  const copy = mkdtempSync(join(tmpdir(), "prs-planted-"));
  try {
    for (const name of copied) cpSync(join(root, name), join(copy, name), { recursive: true });
    symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
    const whole = readFileSync(join(copy, file), "utf8");
    writeFileSync(
      join(copy, file),
      whole.replace(text, () => fault),
    );
    const args = ["--import", "./scripts/installed.js", "test/world/run.ts", "--count", String(most)];
    return spawnSync(process.execPath, args, { cwd: copy, encoding: "utf8" }).stdout;
  } finally {
    rmSync(copy, { recursive: true });
  }
}

const wanted = process.argv.slice(2);
for (const fault of faults) {
  if (wanted.length > 0 && !wanted.some((part) => fault.name.includes(part))) continue;
  const [first, second] = search(fault).split("\n");
  process.stdout.write(`${fault.name}\n  ${first}\n  ${second}\n`);
}
