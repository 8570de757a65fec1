// Completes package-lock.json after `npm install`; call it as `npm run lock`. It adds the optional packages of other
// platforms, which npm leaves out, and missing integrity hashes. Without them `npm ci` would fail on other machines, or
// install unchecked.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));

/** The lock entry of a package, from the registry. Ends the process when the registry gives no integrity hash. */
function entryOf(name, version) {
  const asked = ["version", "os", "cpu", "libc", "dist.integrity"];
  try {
    const text = execFileSync("npm", ["view", `${name}@${version}`, ...asked, "--json"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 60_000,
    });
    const { "dist.integrity": integrity, ...platform } = JSON.parse(text);
    if (integrity) return { ...platform, integrity };
  } catch {
    // npm's message would not help: the registry does not have this version. The message below says what to do.
  }
  console.error(
    `The registry has no integrity hash of ${name}@${version}. Choose another version of the package that needs it.`,
  );
  process.exit(1);
}

let added = 0;
for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const place = `node_modules/${name}`;
    if (lock.packages[place]) continue;
    const exact = version.replace(/^[^\d]*/, "");
    lock.packages[place] = { ...entryOf(name, exact), optional: true, ...(parent.dev && { dev: true }) };
    added += 1;
  }
}
let completed = 0;
for (const [place, entry] of Object.entries(lock.packages)) {
  if (place === "" || entry.integrity) continue;
  entry.integrity = entryOf(place.slice(place.lastIndexOf("node_modules/") + 13), entry.version).integrity;
  completed += 1;
}
const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
lock.packages = Object.fromEntries(sorted);
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`package-lock.json: ${added} packages and ${completed} checksums added`);
