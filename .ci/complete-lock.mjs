// Adds to package-lock.json the optional per-platform packages that `npm install` left out, and any missing integrity,
// so that `npm ci` accepts the lock on every machine and checks what it installs. Run it after each `npm install`:
// npm run lock
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));

/** What the lock says of a package, from the registry. */
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
    // What npm prints of it is no help: the registry does not have this version.
  }
  console.error(
    `The registry tells no integrity of ${name}@${version}. Choose another version of what needs it.`,
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
