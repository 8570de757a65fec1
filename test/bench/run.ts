import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../helpers/servers/programs.ts";
import type { Data } from "./data.ts";
import {
  ask,
  nodeArguments,
  programOf,
  runProgram,
  type startProxy,
  startTarget,
  type Target,
} from "./servers.ts";

/** What every row works with. */
export interface Bench {
  data: Data;
  /** Measured rounds, seconds of one under load, runs of a publish, and different filters. */
  effort: Record<"rounds" | "seconds" | "runs" | "filters", number>;
  /** What ends with the row: servers. */
  ends: AsyncDisposableStack;
  /** A proxy of the row's own over the sample's store. */
  startOurs(): ReturnType<typeof startProxy>;
  found(line: Line): Promise<void>;
  say(line: string): void;
}

/** One line of the table, with all its rounds. */
export interface Line {
  work: string;
  unit: string;
  ours: readonly number[];
  /** What ours is compared with; left out: nothing. */
  peer?: readonly [name: string, rounds: readonly number[]];
  /** Of ours / peer, of ours - peer or of ours alone: `ratio <= 0.1`, `difference <= 0.5`, `<= 20`. */
  goal?: string;
}

/** Medians of a line, and whether its goal is met. What cannot be told is not met. */
export function summaryOf({ work, unit, ours, peer, goal }: Line): string {
  // Three digits that count, and no more.
  const spell = (value: number) =>
    value >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
  const [own, other] = [median(ours), peer ? median(peer[1]) : Number.NaN];
  const figures: Record<string, number> = { "": own, ratio: own / other, difference: own - other };
  const [, of = "", sign, limit] = /^(\w*) ?([<>]=) (.+)$/.exec(goal ?? "") ?? [];
  const [least, most] = sign === ">=" ? [Number(limit), figures[of]!] : [figures[of]!, Number(limit)];
  const told = [`${work}: ${spell(own)} ${unit}`];
  if (peer) told.push(`${peer[0]}: ${spell(other)} ${unit}`, `ratio ${spell(own / other)}`);
  if (goal) told.push(`goal ${goal}: ${least <= most ? "met" : "NOT MET"}`);
  return told.join("; ");
}

/** The least value that at least the share of all values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

export const median = (values: readonly number[]) =>
  (quantile(values, 0.5) +
    -quantile(
      values.map((value) => -value),
      0.5,
    )) /
  2;

/** A figure, or an answer and how long it took, to its last byte as it was sent. */
type Figure = number | Asked;
interface Asked {
  milliseconds: number;
  answer: ReturnType<typeof JSON.parse>;
}

/**
 * Measures sides by turns, so that whatever else the machine does meets all of them; the side that begins changes. The
 * first rounds compile code and open connections, and do not count. Sides that answer must answer alike.
 */
export async function inTurn<Name extends string>(
  rounds: number,
  sides: Record<Name, (round: number) => Promise<Figure>>,
  {
    warmUps = 1,
    alike,
  }: { warmUps?: number; alike?(answers: Record<NoInfer<Name>, Asked["answer"]>): boolean } = {},
): Promise<Record<Name, number[]>> {
  const names = Object.keys(sides) as Name[];
  const figures = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, number[]>;
  for (let round = 0; round < warmUps + rounds; round += 1) {
    const answers = {} as Record<Name, Asked["answer"]>;
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const figure = await sides[name](round);
      const { milliseconds, answer } = typeof figure === "number" ? { milliseconds: figure } : figure;
      answers[name] = answer;
      if (round >= warmUps) figures[name].push(milliseconds);
    }
    if (alike?.(answers) === false)
      throw new Error(`${names.join(" and ")} answer differently in round ${round}`);
  }
  return figures;
}

/** Asks a server in each round for the next of some addresses, which begin alike. */
export const asking =
  (target: Target, ends: readonly string[], start = "") =>
  async (round: number): Promise<Asked> => {
    const { milliseconds, body } = await ask(target, start + ends[round % ends.length]);
    return { milliseconds, answer: JSON.parse(body.toString()) };
  };

/** Starts Express with this gzip body on every path of one segment. */
export async function startConstant(bench: Bench, body: Buffer): Promise<Target> {
  const target = { port: await freePort(), headers: {} };
  const file = join(bench.data.scratch, `constant-${target.port}.gz`);
  await writeFile(file, body);
  const args = nodeArguments("test/bench/peers/constant.ts");
  await startTarget(bench.ends, target, "/constant", { args, env: { BODY: file } });
  return target;
}

/** Requests a second to `paths` of a server, asked for over and over, in each round from where the last ended. */
export async function loadOf(
  { ends, data, effort }: Bench,
  given: { target: Target; paths: string[]; connections: number },
) {
  const { target, paths, connections } = given;
  const wrk = programOf("wrk");
  const list = join(data.scratch, `paths-${target.port}.txt`);
  await writeFile(list, paths.map((path) => `${path}\n`).join(""));
  const headers = Object.entries({ ...target.headers, "accept-encoding": "gzip" });
  let start = 0;
  return async () => {
    const { stdout } = await runProgram(
      ends,
      [
        ...["-t1", `-c${connections}`, `-d${effort.seconds}s`, "--timeout", "60s"],
        ...["-s", join(import.meta.dirname, "load.lua")],
        ...headers.flatMap(([header, value]) => ["-H", `${header}: ${value}`]),
        ...[`http://127.0.0.1:${target.port}`, "--", list, String(start)],
      ],
      { program: wrk },
    );
    const told = (words: RegExp) => Number(words.exec(stdout)?.[1]);
    if (/Non-2xx|Socket errors/.test(stdout) || !(told(/(\d+) requests in/) > 0))
      throw new Error(`requests failed:\n${stdout}`);
    start += told(/(\d+) requests in/);
    return told(/Requests\/sec: +([\d.]+)/);
  };
}
