// Loaded before every command. Without it, a fresh checkout without packages would fail with a stack trace.
try {
  import.meta.resolve("tsx/esm");
} catch {
  process.stderr.write("The packages are not installed: run `npm ci` in this folder first.\n");
  process.exit(1);
}
