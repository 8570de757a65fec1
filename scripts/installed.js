// Before anything else of a command: in a fresh copy without packages, node would tell of a module with a stack.
try {
  import.meta.resolve("tsx/esm");
} catch {
  process.stderr.write("The packages are not installed: run `npm ci` in this folder first.\n");
  process.exit(1);
}
