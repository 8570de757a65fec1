// Adds to package-lock.json the optional per-platform packages that a partial registry mirror left out, so that
// `npm ci` accepts the lock on every machine. Run it after each `npm install`: npm run lock
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));
const systems = {
  linux: "linux",
  linuxmusl: "linux",
  darwin: "darwin",
  win32: "win32",
  android: "android",
  freebsd: "freebsd",
  netbsd: "netbsd",
  openbsd: "openbsd",
  openharmony: "openharmony",
  aix: "aix",
  sunos: "sunos",
  wasm32: undefined,
};
const processors = ["x64", "arm64", "arm", "ia32", "loong64", "mips64el", "ppc64", "riscv64", "s390x"];

let added = 0;
for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const place = `node_modules/${name}`;
    if (lock.packages[place]) continue;
    const words = name.split(/[-/]/);
    const os = words.map((word) => systems[word]).find(Boolean);
    const cpu = processors.find(
      (processor) => words.includes(processor) || words.includes(`${processor}-musl`),
    );
    lock.packages[place] = {
      version: version.replace(/^[^\d]*/, ""),
      optional: true,
      ...(parent.dev && { dev: true }),
      ...(os && { os: [os] }),
      ...(cpu && { cpu: [cpu] }),
    };
    added += 1;
  }
}
const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
lock.packages = Object.fromEntries(sorted);
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`${added} optional platform packages added to package-lock.json`);
