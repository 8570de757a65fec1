import { ProtocolSlug } from "../../schemas/primitives.ts";
import { maxProtocols, type ScoreRefs } from "../../schemas/store/snapshot.ts";
import { CorruptObjectError } from "../store/errors.ts";

/** The first words of the lines of protocols. */
const kinds = { score: "records", history: "histories", dimensions: "dimensions" } as const;

/** The leaves of the scores tree, one line for each object (snapshots/SPEC.md, "Roots"). */
export function scoreLines(scores: ScoreRefs): string[] {
  const linesOf = ([word, kind]: [string, (typeof kinds)[keyof typeof kinds]]) =>
    slugsOf(scores[kind]).map((slug) => `${word} ${slug} ${scores[kind][slug]?.hash}`);
  return [`scores ${scores.list.hash}`, ...Object.entries(kinds).flatMap(linesOf)];
}

/** The stored lines. */
export const scoreText = (scores: ScoreRefs): string =>
  scoreLines(scores)
    .map((line) => `${line}\n`)
    .join("");

/** Throws CorruptObjectError unless these are the lines of a snapshot, each in its place. */
export function readScoreText(key: string, bytes: Buffer): ScoreRefs {
  const text = bytes.toString();
  const list = { hash: /^scores ([0-9a-f]{64})\n/.exec(text)?.[1] ?? "" };
  const scores: ScoreRefs = { list, records: {}, histories: {}, dimensions: {} };
  for (const [, word, slug, hash] of text.matchAll(/^(score|history|dimensions) (\S+) ([0-9a-f]{64})$/gm))
    scores[kinds[word as keyof typeof kinds]][slug!] = { hash: hash! };
  if (scoreText(scores) !== text) throw new CorruptObjectError(key, "its lines are not as documented");
  const [slugs = [], ...others] = Object.values(kinds).map((kind) => slugsOf(scores[kind]));
  if (others.some((other) => other.join() !== slugs.join()))
    throw new CorruptObjectError(key, "its records, histories and dimensions name different protocols");
  if (slugs.length > maxProtocols || !slugs.every((slug) => ProtocolSlug.safeParse(slug).success))
    throw new CorruptObjectError(key, "it names too many protocols, or one that cannot be named so");
  return scores;
}

const slugsOf = (refs: ScoreRefs["records"]): string[] => Object.keys(refs).sort();
