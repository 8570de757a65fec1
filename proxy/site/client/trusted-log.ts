import type { MarketIndex } from "../../../schemas/envelopes.ts";
import { bytesOf, textOf, toHex } from "../../../snapshots/format/bytes.ts";
import { hashBytes } from "../../../snapshots/format/hash-trees.ts";
import {
  besideLeaf,
  decodeEntries,
  type Tile,
  tilePath,
  tileProofsOf,
  tileWidth,
} from "../../../snapshots/format/log-tiles.ts";
import type { Asker } from "./asker.ts";
import { isPolicy, timeIn } from "./proofs.ts";
import { ownSha256, trees } from "./trees.ts";
import type { CallOptions, CheckpointHead, Entry, Trust, Vouched } from "./types.ts";

/** What the service says of its log. Nothing of it is believed before it was checked. */
type SaidOfLog = Pick<MarketIndex, "snapshotId" | "commit" | "entry" | "checkpoint" | "inclusion">;

/** A commit that the caller has reason to believe. */
export interface Believed {
  snapshotId: string;
  commit: number;
  entry: Entry;
  vouched: Vouched;
}

/** Reads a tile of the log, or a bundle of its entries; undefined where there is none. */
type ReadFile = (level: Tile["level"], index: number, width: number) => Promise<Uint8Array | undefined>;

/** The most bytes of an entry in a bundle: two for its length, and then at most 65,535. */
const entryBytes = 2 + 0xffff;

const proofs = tileProofsOf(trees, (hash) => hash);

export type TrustedLog = ReturnType<typeof trustedLog>;

/** The log of the service, as far as the caller's trust reaches. */
export function trustedLog(asker: Asker) {
  const { need, checking, tools } = asker;

  /** Checks the members of an answer that tell its commit. */
  async function vouch(
    { snapshotId, commit, entry: text, inclusion, checkpoint }: SaidOfLog,
    trust: Trust,
    { asOf, signal }: { asOf: string | undefined; signal: AbortSignal | undefined },
  ): Promise<Believed> {
    const { key, entry: pinned, snapshotId: id, since } = trust;
    const { checkpointIn, verifyCheckpoint, verifyEntry } = tools;
    need(typeof text === "string", "entry", "There is no entry of the log.");
    const hash = toHex(await ownSha256(bytesOf(text)));
    need(
      pinned === undefined || hash === pinned,
      "entry",
      `The log's entry is not the one of trust: ${hash}.`,
    );
    const claim = { entry: text, snapshotId, commit };
    if (since !== undefined)
      await checking("trust", "trust.since", () => checkpointIn(since)).catch(({ message }) => {
        throw asker.invalid(message, "trust");
      });
    const own = { snapshotId: id ?? (pinned && snapshotId), asOf };
    const entry = await checking("entry", "The log's entry", () =>
      verifyEntry({ ...claim, checkpoint: null, proof: { inclusion: null } }, own),
    );
    const log = await checking("checkpoint", "The checkpoint", async () => {
      if (key !== undefined) return { ...(await verifyCheckpoint(checkpoint, key)), signed: true };
      return checkpoint === null ? null : { ...checkpointIn(checkpoint), cosigners: 0, signed: false };
    });
    await checking("inclusion", "The entry's place in the log", () =>
      verifyEntry({ ...claim, checkpoint, proof: { inclusion } }, own),
    );
    if (log && asOf !== undefined)
      await checking(
        "entry",
        "The log's entry",
        () => requireMeant(asOf, entry, log, filesFor(signal)),
        signal,
      );
    if (since !== undefined)
      await checking(
        "checkpoint",
        "The log of trust.since",
        () => tools.client.requireSameLog(since, checkpoint as string, { signal }),
        signal,
      );
    const anchors = { [isPolicy(key) ? "policy" : "key"]: key, entry: pinned, snapshotId: id, since };
    const by = Object.keys(anchors).filter((name) => anchors[name] !== undefined) as Vouched["by"];
    return {
      snapshotId,
      commit,
      entry,
      vouched: {
        by,
        entry: hash,
        leaf: toHex(await trees.leafHash(bytesOf(text))),
        publishedAt: entry.publishedAt,
        checkpoint: log && {
          origin: log.origin,
          size: log.size,
          signed: log.signed,
          cosigners: log.cosigners,
          text: checkpoint as string,
        },
        complete: key !== undefined || pinned !== undefined,
        unjudged: [],
      },
    };
  }

  /** Checks that an entry is the one that a time means: the last one published until then and not withdrawn. */
  async function requireMeant(asOf: string, entry: Entry, log: CheckpointHead, read: ReadFile) {
    const time = timeIn(asOf);
    if (Number.isNaN(time) || entry.commit === log.size) return;
    const { withdrawn } = await entryOf(log, log.size, read);
    const isWithdrawn = withdrawn.some(([first, last]) => first <= entry.commit && entry.commit <= last);
    need(!isWithdrawn, "entry", `Commit ${entry.commit} was withdrawn.`);
    let next = entry.commit + 1;
    // Once, whatever the ranges are: the log's owner may have written any.
    for (const [first, last] of withdrawn.toSorted(([a], [b]) => a - b))
      if (first <= next && next <= last) next = last + 1;
    const isThere = Number.isInteger(next) && next <= log.size;
    need(isThere, "entry", `Commit ${log.size} withdraws itself.`);
    const { publishedAt } = await entryOf(log, next, read);
    need(
      Date.parse(publishedAt) > time,
      "entry",
      `${asOf} means commit ${next}, published ${publishedAt}, or a later one, and not commit ${entry.commit}.`,
    );
  }

  /** The entry of a commit, as the tiles of a log have it, which lead to its root. */
  async function entryOf({ size, root }: CheckpointHead, commit: number, read: ReadFile): Promise<Entry> {
    const index = commit - 1;
    const bundle = Math.floor(index / tileWidth);
    const width = Math.min(tileWidth, size - tileWidth * bundle);
    const path = await proofs.headsOf(read, size, besideLeaf(index, size));
    const entries = (await read("entries", bundle, width)) ?? (await read("entries", bundle, tileWidth));
    const entry = (entries && decodeEntries(entries))?.[index % tileWidth];
    const head = entry && trees.headFrom(trees.leafHash(entry), { index, size, path });
    const same = entry && head && toHex(await head) === root;
    need(same, "entry", `The log has another entry of commit ${commit}.`);
    return JSON.parse(textOf(entry!));
  }

  /**
   * See Client.requireSameLog.
   * @param after Of a larger log.
   */
  async function requireSameLog(before: string, after: string, { signal }: CallOptions = {}): Promise<void> {
    const { checkpointIn, ForkedLogError } = tools;
    const [old, now] = [checkpointIn(before), checkpointIn(after)];
    const heads = await checking(
      "checkpoint",
      "The tiles of the log",
      async () => proofs.headsFromTiles(filesFor(signal), old.size, now.size),
      signal,
    );
    const [first, whole] = heads.map(toHex);
    need(whole === now.root, "checkpoint", "The tiles of the log are not those of its checkpoint.");
    if (first !== old.root) throw new ForkedLogError(before, after);
  }

  function filesFor(signal: AbortSignal | undefined): ReadFile {
    const { ApiError, ask } = tools;
    return (level, index, width) => {
      const path = `/log/tile/${tilePath({ level, index, width })}`;
      const most = tileWidth * (level === "entries" ? entryBytes : hashBytes);
      return ask(path, { signal, accept: "application/octet-stream" }, ({ bytes }) => bytes(most)).catch(
        (error) => {
          if (width < tileWidth && error instanceof ApiError && error.status === 404) return undefined;
          throw error;
        },
      );
    };
  }

  return { vouch, requireSameLog };
}
