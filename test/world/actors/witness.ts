import { NoteError, type Policy } from "../../../snapshots/format/note.ts";
import type { TreeHead } from "../../../snapshots/format/tree.ts";
import { parsePolicy, parseSigningKey, verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { openNote, parseCheckpoint, signatureLine } from "../../../snapshots/trust/notes/signed-note.ts";
import { isConsistent } from "../../helpers/store/consistency.ts";
import { keyText, testKey } from "../../helpers/store/signing.ts";
import { type Kernel, must, type Process } from "../kernel/kernel.ts";
import { asked, Unreachable } from "../kernel/network.ts";
import type { Asked } from "../kernel/virtual.ts";

/** The key of all publishers. */
export const key = testKey("world.example");
const names = ["north", "south"] as const;
const keys = names.map((name) => parseSigningKey(keyText(`${name}.example`, "", "cosignature-ed25519")));

/** One of the two witnesses must have cosigned what readers believe. */
export const policyText = [
  `log ${verifierText(key)}`,
  ...names.map((name, at) => `witness ${name} ${verifierText(keys[at]!)} https://${name}.example`),
  "group either any north south",
  "quorum either",
  "",
].join("\n");
export const policy: Policy = parsePolicy(Buffer.from(policyText), "policy");

interface Answer {
  status: number;
  body: Buffer[];
}

const answer = (status: number, text = ""): Answer => ({ status, body: [Buffer.from(text)] });

/** Two witnesses as c2sp.org/tlog-witness has them, which keep what they have seen. */
export class Witnessing {
  readonly #kernel: Kernel;
  readonly #seen: (TreeHead | undefined)[] = names.map(() => undefined);

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  /** Carries a request to one of them. */
  async fetch(from: Process, url: string, { body = "" }: Asked): Promise<Answer> {
    const at = names.findIndex((name) => url.startsWith(`https://${name}.example/`));
    // A witness is away now and then.
    if (from.draw(12) === 0) throw new TypeError("fetch failed", { cause: new Unreachable("it is away") });
    try {
      return await asked(this.#kernel, from, from, async () => this.#add(at, body));
    } catch (error) {
      if (error instanceof Unreachable) throw new TypeError("fetch failed", { cause: error });
      throw error;
    }
  }

  #add(at: number, body: string): Answer {
    const cut = body.indexOf("\n\n");
    const [old = "", ...proof] = body.slice(0, cut).split("\n");
    const note = body.slice(cut + 2);
    const from = Number(old.slice("old ".length));
    try {
      openNote(note, [key]);
    } catch (error) {
      if (error instanceof NoteError) return answer(403);
      throw error;
    }
    const [, size = "", root = ""] = note.split("\n");
    const tree = size === "0" ? { size: 0, head: Buffer.from(root, "base64") } : parseCheckpoint(note);
    const seen = this.#seen[at];
    if (from > tree.size) return answer(400);
    if (from !== (seen?.size ?? 0)) return answer(409, `${seen?.size ?? 0}\n`);
    const path = proof.map((hash) => Buffer.from(hash, "base64"));
    if (seen && seen.size === tree.size) {
      must(
        "no second tree of a size is signed",
        seen.head.equals(tree.head),
        () => `${size} at ${names[at]}`,
      );
    } else if (seen && !isConsistent(seen, tree, path)) return answer(422);
    if (tree.size > 0) this.#seen[at] = tree;
    const text = note.slice(0, note.lastIndexOf("\n\n") + 1);
    return answer(200, `${signatureLine(keys[at]!, text, Math.floor(this.#kernel.now / 1000))}\n`);
  }
}
