import { TileError } from "../format/log-tiles.ts";
import { kindName, NoteError, type Policy, parseSignature, type Witness } from "../format/note.ts";
import { consistencyFromTiles, type TreeHead } from "../format/tree.ts";
import { unless, unlessSync } from "../store/errors.ts";
import { tilesIn } from "../store/log/tiles.ts";
import { readAll, type Storage } from "../store/storage.ts";
import { checkSignature, timeOf } from "./notes/signed-note.ts";

// The client of c2sp.org/tlog-witness: a witness that has seen nothing else of a log cosigns its checkpoint.

/**
 * The witnesses of a publisher's policy during one run. Nobody who failed once in it is asked, or waited for, again.
 */
export class Witnesses {
  readonly policy: Policy;
  readonly #deadlineMs: number;
  readonly #failed = new Map<Witness, Answer>();

  constructor(policy: Policy, deadlineMs = 10_000) {
    this.policy = policy;
    this.#deadlineMs = deadlineMs;
  }

  /** Asks those given, all at once. Only `consistency` can make this throw: a witness's fault is its answer. */
  ask(among: readonly Witness[], submission: Submission): Promise<Answer[]> {
    return Promise.all(among.map((witness) => this.#failed.get(witness) ?? this.#ask(witness, submission)));
  }

  async #ask(witness: Witness, submission: Submission): Promise<Answer> {
    try {
      const url = addressOf(witness);
      const signal = AbortSignal.timeout(this.#deadlineMs);
      const first = await post(url, await requestOf(submission, 0), signal);
      if (first.status !== 409) return cosignatureIn(first, witness, submission);
      const size = sizeIn(first.body, submission.size);
      const second = await post(url, await requestOf(submission, size), signal);
      // It has seen another tree in between, or does not know itself what it has seen.
      if (second.status === 409) throw new Refusal(`it answers 409 again, to the size ${size} that it named`);
      return cosignatureIn(second, witness, submission);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { message: fault, more } = error;
      const answer = { witness, fault, ...more };
      if (!more.otherTree && more.size === undefined) this.#failed.set(witness, answer);
      return answer;
    }
  }
}

/** A signed checkpoint to be cosigned. */
export interface Submission {
  /** With no more than the log's own signatures: witnesses bound what they read. */
  note: string;
  size: number;
  /** The hashes that prove that the checkpoint's tree begins with the tree of its first `from` entries, 1 or more. */
  consistency(from: number): Promise<readonly Buffer[]>;
}

export function submissionOf(storage: Storage, note: string, { size }: TreeHead): Submission {
  return { note, size, consistency: (from) => consistencyFromTiles(tilesIn(storage), from, size) };
}

export type Answer = { witness: Witness } & (
  | { line: string; time: number }
  /** Where `line` is missing, `fault` says why; `size` is that of a larger tree that the witness has seen. */
  | { fault: string; size?: number | undefined; otherTree?: true }
);

const maxAnswerBytes = 64 * 1024;
const maxProof = 63;

/** A witness did not do what it was asked for. */
class Refusal extends Error {
  readonly more: { size?: number; otherTree?: true };

  constructor(message: string, more: { size?: number; otherTree?: true } = {}) {
    super(message);
    this.more = more;
  }
}

const refusing = (message: string) => (): never => {
  throw new Refusal(message);
};

function addressOf({ url }: Witness): string {
  if (url === undefined) throw new Refusal("the policy has no address of it");
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw new Refusal(`${url} is no http(s) address`);
  return `${url.replace(/\/+$/, "")}/add-checkpoint`;
}

async function requestOf({ note, consistency }: Submission, from: number): Promise<string> {
  const unproved = ({ message }: TileError): never => {
    throw new Refusal(`it cannot be asked: ${message}`);
  };
  const proof = from === 0 ? [] : await unless(TileError, () => consistency(from), unproved);
  if (proof.length > maxProof) throw new Refusal(`the proof from ${from} has more than ${maxProof} hashes`);
  return [`old ${from}`, ...proof.map((hash) => hash.toString("base64")), "", note].join("\n");
}

interface Reply {
  status: number;
  body: string;
}

async function post(url: string, body: string, signal: AbortSignal): Promise<Reply> {
  try {
    const headers = { "content-type": "text/plain; charset=utf-8" };
    const response = await fetch(url, { method: "POST", body, headers, redirect: "error", signal });
    const answer = (response.body ?? []) as AsyncIterable<Uint8Array>;
    const tooLong = refusing(`its answer has more than ${maxAnswerBytes} bytes`);
    return { status: response.status, body: String(await readAll(answer, maxAnswerBytes, tooLong)) };
  } catch (error) {
    if (error instanceof Refusal) throw error;
    if (signal.aborted) throw new Refusal("it did not answer in time");
    const { cause } = error as Error;
    throw new Refusal(
      `it cannot be asked: ${cause instanceof Error ? cause.message : (error as Error).message}`,
    );
  }
}

/** The size in an answer 409: that of the newest tree the witness has seen. */
function sizeIn(body: string, ours: number): number {
  if (!/^(0|[1-9]\d{0,15})\n?$/.test(body)) throw new Refusal("it answers 409 without a size");
  const size = Number(body);
  if (size > ours) throw new Refusal(`it has seen ${size} entries of the log, not ${ours}`, { size });
  return size;
}

function cosignatureIn({ status, body }: Reply, witness: Witness, { note, size }: Submission): Answer {
  const { key } = witness;
  if (status === 422)
    throw new Refusal(`it has seen another tree than the one of ${size} entries (422)`, { otherTree: true });
  if (status !== 200) throw new Refusal(`it answers ${status}${beginningOf(body)}`);
  const text = note.slice(0, note.lastIndexOf("\n\n") + 1);
  const noSignature = refusing("its answer has a line that is no signature");
  const own = body
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => unlessSync(NoteError, () => parseSignature(line), noSignature))
    .find(({ name, id }) => name === key.name && id === key.id);
  if (!own) throw new Refusal(`its answer has no signature of ${key.name}+${key.id}`);
  const finding = checkSignature(key, text, own.signature);
  if (finding === "wrong") throw new Refusal("its signature is wrong, or of another checkpoint");
  if (finding === "unchecked")
    throw new Refusal(
      `it cosigns with ${kindName(key.kind)}, which Node checks from version 24 on, not ${process.version}`,
    );
  const time = timeOf(key.kind, own.signature);
  if (!time) throw new Refusal("its signature tells no time");
  return { witness, line: own.line, time };
}

/** The beginning of a text from outside, for one line of a terminal. */
function beginningOf(body: string): string {
  const line = body
    .replaceAll(/[\p{C}\s]+/gu, " ")
    .trim()
    .slice(0, 100);
  return line && `: ${line}`;
}
