import type { Commit } from "../../../schemas/store/snapshot.ts";
import { maxNoteBytes, NoteError, parseNote } from "../../format/note.ts";
import { CorruptObjectError, unless } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { readCommit } from "../../store/log/commits.ts";
import { LogTree } from "../../store/log/public-log.ts";
import { type Storage, StorageError } from "../../store/storage.ts";
import { rememberedBy, submissionOf } from "../../trust/log/remembered.ts";
import { type FoundLog, namedBy, requireKnown } from "../../trust/log/run-log.ts";
import { storedCheckpoint } from "../../trust/log/stored-checkpoint.ts";
import { signCheckpoint } from "../../trust/notes/checkpoint.ts";
import { timeOf } from "../../trust/notes/cosignature.ts";
import { mergeNotes } from "../../trust/notes/signed-note.ts";
import { type Signing, trustOf } from "../../trust/signing.ts";
import type { Trust } from "../../trust/trust.ts";
import type { PublicTree } from "./tree.ts";

/** Another round is needed only when another publisher signed meanwhile. */
const maxRounds = 16;

/**
 * Whether a witness of the publisher's policy cosigned the newest checkpoint: when, in seconds since 1970, or why not.
 */
export type Witnessed = { name: string } & ({ time: number } | { fault: string });

/**
 * Signs the tree of the log that ends with the newest commit, whoever made that: a run may have been killed before it
 * signed. Then asks those witnesses that have not cosigned it yet. Signs nothing without a key, or where no trusted key
 * signed the commit's entry. `found` is what the run found, if this is still the newest commit. Throws
 * UNTRUSTED_PREDECESSOR when the tree does not begin with every one that was signed before, or a witness remembers
 * another one.
 */
export async function updateCheckpoint(
  shown: PublicTree,
  newest: Commit,
  signing: Signing,
  found?: FoundLog,
): Promise<Witnessed[]> {
  const { storage } = shown;
  const { key, cosigner, trusted = [], witnesses, memory } = signing;
  const trust = trustOf(signing);
  if (!key || !trust || trust.commit(newest)) return [];
  const { commit: size } = newest;
  const tree = found?.tree ?? (await LogTree.upTo(storage, newest));
  const { checkpoint } =
    found?.stored?.checkpoint?.size === size ? found.stored : await storedCheckpoint(storage, trust, size);
  // Another publisher went on meanwhile, and vouches for this tree.
  if (checkpoint && checkpoint.size > size) return [];
  if (checkpoint)
    await requireKnown(storage, newest, [namedBy(layout.logCheckpoint, checkpoint)], async () => tree);
  if (checkpoint?.size !== size) {
    const remembered = await rememberedBy(storage, signing);
    // A witness may have seen the next commit before its publisher stored the checkpoint.
    const isAhead = remembered.some((each) => each.size > size);
    if (isAhead && (await isFollowed(storage, newest, trust))) return [];
    await requireKnown(storage, newest, remembered, async () => tree);
  }
  const asked = witnesses?.policy.witnesses ?? [];
  const keys = [key, ...trusted, ...(cosigner ? [cosigner] : []), ...asked.map((witness) => witness.key)];
  const own = signCheckpoint(signing, tree);
  // Must be kept before anybody sees it.
  await memory?.keep(own);
  const foundAt = async (at: string) => {
    const note = found?.stored?.shown;
    return note !== undefined && (await shown.holds(at, Buffer.from(note))) ? note : undefined;
  };
  const at = layout.logCheckpointOf(size);
  const stored = (await foundAt(at)) ?? (await readNote(storage, at));
  const known = stored && textOf(stored) === textOf(own) ? mergeNotes([stored, own], keys) : own;
  const { text, signatures } = parseNote(known);
  const lineOf = ({ name, id }: { name: string; id: string }) =>
    signatures.find((each) => each.name === name && each.id === id);
  const lacking = asked.filter((witness) => !lineOf(witness.key));
  // Stored together with what they cosign, so that readers who require cosignatures do not see it without.
  const answers = (await witnesses?.ask(lacking, submissionOf(storage, own, tree))) ?? [];
  const lines = answers.flatMap((answer) => ("line" in answer ? [`${answer.line}\n`] : []));
  const note = lines.length > 0 ? mergeNotes([known, `${text}\n${lines.join("")}`], keys) : known;
  await mergeCheckpoint({ storage, newest, trust, keys, foundAt }, note);
  return asked.map(({ name, key }) => {
    const found = lineOf(key);
    if (found) return { name, time: timeOf(key.kind, found.signature) ?? 0 };
    const answer = answers.find(({ witness }) => witness.key === key)!;
    return "line" in answer ? { name, time: answer.time } : { name, fault: answer.fault };
  });
}

async function isFollowed(storage: Storage, { commit, digest }: Commit, trust: Trust): Promise<boolean> {
  const next = await unless(CorruptObjectError, () => readCommit(storage, commit + 1));
  return next?.previous === digest && !trust.commit(next);
}

interface Place {
  storage: Storage;
  newest: Commit;
  trust: Trust;
  keys: Parameters<typeof mergeNotes>[1];
  /** The note that the run found, where an object holds it. */
  foundAt: (at: string) => Promise<string | undefined>;
}

async function mergeCheckpoint(place: Place, note: string): Promise<void> {
  const merged = await mergeInto(layout.logCheckpointOf(place.newest.commit), place, note);
  if (merged !== undefined) await mergeInto(layout.logCheckpoint, place, merged);
}

/** Returns what is stored then; undefined when another publisher went on. */
async function mergeInto(
  at: string,
  { storage, newest, trust, keys, foundAt }: Place,
  note: string,
): Promise<string | undefined> {
  if ((await foundAt(at)) === note) return note;
  for (let round = 0; round < maxRounds; round += 1) {
    const tag = await tagOf(storage, at);
    const stored = tag === undefined ? undefined : await readNote(storage, at);
    const said = stored && trust.tree(stored);
    if (said && "size" in said) {
      // Another publisher went on meanwhile, and vouches for this tree.
      if (said.size > newest.commit) return undefined;
      await requireKnown(storage, newest, [namedBy(at, said)]);
    }
    const wanted = stored && textOf(stored) === textOf(note) ? mergeNotes([stored, note], keys) : note;
    if (wanted === stored) return wanted;
    const bytes = Buffer.from(wanted);
    const done =
      tag === undefined ? await storage.putIfAbsent(at, bytes) : await storage.replace(at, bytes, tag);
    if (done) return wanted;
  }
  throw new StorageError(`${storage.location}: other publishers keep changing ${at}; run again`);
}

/** Undefined when there is no such object. */
async function tagOf(storage: Storage, wanted: string): Promise<string | undefined> {
  for await (const { key, tag } of storage.list(wanted)) if (key === wanted) return tag;
  return undefined;
}

async function readNote(storage: Storage, key: string): Promise<string | undefined> {
  const bytes = await unless(CorruptObjectError, () => storage.get(key, { maxBytes: maxNoteBytes }));
  return bytes?.toString();
}

function textOf(note: string): string | undefined {
  try {
    return parseNote(note).text;
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    return undefined;
  }
}
