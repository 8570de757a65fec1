import { NoteError, parseNote } from "../../format/note.ts";
import { kindName, type VerifierKey } from "../../format/note-keys.ts";
import { isQuorum, type Policy, type Witness } from "../../format/policy.ts";
import { timeOf } from "../notes/cosignature.ts";
import { openNote } from "../notes/signed-note.ts";

/** Who signed a checkpoint, and when a witness did, in seconds since 1970. */
export interface Cosigner {
  witness: Witness;
  time: number;
}

/** What a policy makes of a checkpoint that one of its logs signed. */
export interface Judged {
  text: string;
  /** Keys of the log whose name the first line is. */
  signers: VerifierKey[];
  cosigners: Cosigner[];
  /** Why those are not enough; undefined when they are. */
  lacking: string | undefined;
  /** The note with the checked signatures alone. */
  note: string;
}

/**
 * Checks who signed a checkpoint. Throws NoteError when it is malformed, no log did, or a known key's signature is
 * wrong.
 */
export function judgeNote(policy: Policy, note: string): Judged {
  const { logs, witnesses } = policy;
  const keys = [...logs, ...witnesses].map(({ key }) => key);
  const { text, signers: found, unchecked, note: checked } = openNote(note, keys);
  const origin = text.slice(0, text.indexOf("\n"));
  const signers = found.filter((signer) => logs.some(({ key }) => key === signer && key.name === origin));
  if (signers.length === 0) throw new NoteError(`no log of the policy called ${origin} signed it`);
  const times = new Map(
    parseNote(checked).signatures.map(({ name, id, signature }) => [`${name}+${id}`, signature]),
  );
  const cosigners = witnesses
    .filter(({ key }) => found.includes(key))
    .map((witness) => {
      const { name, id, kind } = witness.key;
      return { witness, time: timeOf(kind, times.get(`${name}+${id}`)!)! };
    });
  const lacking = isQuorum(policy, new Set(found)) ? undefined : whyLacking(policy, cosigners, unchecked);
  return { text, signers, cosigners, lacking, note: checked };
}

function whyLacking(
  { quorum, witnesses }: Policy,
  cosigners: readonly Cosigner[],
  unchecked: readonly VerifierKey[],
): string {
  const did = cosigners.map(({ witness }) => witness.name);
  const cannot = witnesses.filter(({ key }) => unchecked.includes(key));
  const others = witnesses.filter((witness) => !did.includes(witness.name) && !cannot.includes(witness));
  const parts = [
    `${did.join(", ") || "no witness"} cosigned`,
    ...(others.length > 0 ? [`${others.map(({ name }) => name).join(", ")} did not`] : []),
    ...cannot.map(
      ({ name, key }) => `${name} did with ${kindName(key.kind)}, which this platform cannot check`,
    ),
  ];
  return `the quorum ${quorum?.name} is not reached: ${parts.join("; ")}`;
}
