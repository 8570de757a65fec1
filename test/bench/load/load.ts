import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { runProgram } from "../run/processes.ts";
import type { Bench } from "../run/run.ts";
import type { Target } from "./client.ts";

/** What one round under load gave. */
export interface Loaded {
  requestsPerSecond: number;
  bytesPerRequest: number;
  /** Milliseconds. */
  p50: number;
  p99: number;
}

const number = z.number();
const Result = z.object({
  ...{ requests: number, microseconds: number.min(1), bytes: number, failed: number },
  ...{ p50: number, p99: number },
});

/** Of a round in which nothing is answered. */
const longestSeconds = 60;

const script = join(import.meta.dirname, "load.lua");

/** A load that walks through `paths` of a server over and over. `name` is of the file that lists them. */
export async function prepareLoad(
  { programs, ends, data, options }: Bench,
  given: { target: Target; name: string; paths: string[]; connections: number },
): Promise<() => Promise<Loaded>> {
  const { target, name, paths, connections } = given;
  const list = join(data.scratch, `${name}.txt`);
  await writeFile(list, paths.map((path) => `${path}\n`).join(""));
  const headers = Object.entries({ ...target.headers, "accept-encoding": "gzip" });
  let start = 0;
  const load = async (seconds: number) => {
    const out = await runProgram(ends, [
      ...[programs.wrk, "-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "60s"],
      ...["-s", script, ...headers.flatMap(([header, value]) => ["-H", `${header}: ${value}`])],
      ...[`http://127.0.0.1:${target.port}`, "--", list, String(start)],
    ]);
    const result = Result.parse(JSON.parse(/^RESULT (.*)$/m.exec(out)?.[1] ?? "{}"));
    if (result.failed > 0) throw new Error(`${result.failed} requests of ${name} failed:\n${out}`);
    return result;
  };
  return async () => {
    let { seconds } = options.effort;
    let result = await load(seconds);
    // A machine that is busy with other things may answer nothing in a short time.
    while (result.requests === 0 && seconds < longestSeconds) {
      seconds *= 2;
      result = await load(seconds);
    }
    if (result.requests === 0) throw new Error(`no request of ${name} was answered in ${seconds} s`);
    // The next round goes on where this one ended: no round finds only what it has just had.
    start += result.requests;
    return {
      requestsPerSecond: (result.requests / result.microseconds) * 1e6,
      bytesPerRequest: result.bytes / result.requests,
      p50: result.p50 / 1000,
      p99: result.p99 / 1000,
    };
  };
}
