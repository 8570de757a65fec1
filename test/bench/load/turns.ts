// Imported into a server before its own code: tells how long its main thread worked in the longest turn of the event
// loop. That is the time or the CPU of the turn, whichever is less: a busy machine makes a process wait anywhere, and
// the kernel counts CPU in steps of some milliseconds.
let longest = 0;
let began = performance.now();
let before = process.threadCpuUsage();

function turn(): void {
  const { user, system } = process.threadCpuUsage(before);
  longest = Math.max(longest, Math.min(performance.now() - began, (user + system) / 1000));
  began = performance.now();
  before = process.threadCpuUsage();
  setImmediate(turn);
}

process.on("message", () => {
  process.send!(longest);
  longest = 0;
});
turn();
