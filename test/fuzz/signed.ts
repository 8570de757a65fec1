import { ApiError, checkpointIn, IntegrityError, verifyCheckpoint } from "../../proxy/site/client/client.ts";
import {
  ChangeFiles,
  Checked,
  Collecting,
  Commit,
  ExportRecord,
  type Manifest,
} from "../../schemas/store/stored-objects.ts";
import { feedVersion, formatVersion } from "../../schemas/versions.ts";
import { decodeEntries, TileError, tileAt, tilePath } from "../../snapshots/format/log-tiles.ts";
import {
  type Group,
  isQuorum,
  NoteError,
  NoteKeyError,
  parseNote,
  type Witness,
} from "../../snapshots/format/note.ts";
import {
  consistencyFromTiles,
  encodeEntries,
  headFromTiles,
  inclusionFromTiles,
} from "../../snapshots/format/tree.ts";
import {
  decodeIds,
  encodeIds,
  entriesOf,
  IdFilter,
  mayShare,
  ordinalsOf,
  requireIds,
} from "../../snapshots/index/id-table.ts";
import { CorruptObjectError, MissingObjectError } from "../../snapshots/store/errors.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { entryOf } from "../../snapshots/store/log/tiles.ts";
import { divideManifest, readManifest, snapshotEntryOf } from "../../snapshots/store/manifest.ts";
import { referTo, seal, unseal } from "../../snapshots/store/objects.ts";
import {
  parsePolicy,
  parseSigningKey,
  parseVerifierKey,
  verifierText,
} from "../../snapshots/trust/notes/note-keys.ts";
import {
  checkpointText,
  mergeNotes,
  parseCheckpoint,
  signatureLine,
  signCheckpoint,
} from "../../snapshots/trust/notes/signed-note.ts";
import { checkAgreement, Trust } from "../../snapshots/trust/trust.ts";
import { isConsistent } from "../helpers/store/consistency.ts";
import { keyText, testKey } from "../helpers/store/signing.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { need, needSame, parted, refused, refusedLater, type Target } from "./target.ts";

const digest = "ab".repeat(32);
const ref = { hash: digest, bytes: 6 };

const told: Omit<Manifest, "parts" | "lists"> = {
  formatVersion,
  newestResolvedAt: "2025-01-01T00:00:00.000Z",
  newestUpdatedAt: "2025-01-01T00:00:00.000Z",
  rowDigests: "1",
  sources: ref,
  segments: [1, 2].map((markets) => ({
    ...{ ...ref, markets, root: digest, index: ref, words: ref, origins: ref },
    rows: { hash: digest, bytes: 8 * markets },
    ids: { hash: digest, bytes: 6 * markets, root: digest },
  })),
  scores: {
    list: { hash: digest },
    records: { aave: { hash: digest } },
    histories: { aave: { hash: digest } },
    dimensions: { aave: { hash: digest } },
  },
};

/** The JSON of an input; undefined when it is none. */
const jsonIn = (input: Buffer) => refused(() => JSON.parse(input.toString()), SyntaxError);

const manifest: Target = {
  seeds: () => {
    const { stored, parts } = divideManifest(told);
    const [scores, ...others] = [...parts.values()].map(String).toReversed();
    const lists = others.map((list) => JSON.parse(list));
    return [JSON.stringify({ root: JSON.parse(stored.toString()), lists, scores }), stored];
  },
  words: ["feedVersion", "pages", "__proto__"],
  async run(input) {
    const objects = new Map<string, Buffer>();
    const keep = (keyOf: (hash: string) => string, bytes: Buffer) => {
      const kept = referTo(bytes);
      objects.set(keyOf(kept.hash), bytes);
      return kept;
    };
    const json = jsonIn(input);
    let bytes = input;
    // No change would keep the names of its parts.
    if (json?.root?.parts && Array.isArray(json.lists)) {
      const put = (keyOf: (hash: string) => string, part: unknown) =>
        keep(keyOf, Buffer.from(JSON.stringify(part ?? null)));
      const lists = (json.lists as unknown[]).map((list, index) => ({
        ...json.root.parts.lists?.[index],
        ...put(layout.segmentList, list),
      }));
      const scores = keep(layout.scoreLines, Buffer.from(String(json.scores)));
      const parts = { ...json.root.parts, lists, scores };
      bytes = Buffer.from(JSON.stringify({ ...json.root, parts }));
    }
    const storage = memoryStorage(objects);
    const documented = [CorruptObjectError, MissingObjectError];
    const name = keep(layout.manifest, bytes);
    const entry = { feedVersion, counts: { markets: 3, protocols: 1 } };
    const read = await refusedLater(() => readManifest(storage, { manifest: name, entry }), ...documented);
    if (!read) return;
    const { snapshotId, indexRoot, scoresRoot } = snapshotEntryOf(read, feedVersion);
    need(
      [snapshotId, indexRoot, scoresRoot].every(({ length }) => length === 64),
      "a manifest has an id and roots",
    );
    const { stored, parts } = divideManifest(read);
    for (const [key, part] of parts) objects.set(key, part);
    const again = await readManifest(storage, { manifest: keep(layout.manifest, stored), entry });
    needSame({ ...again, parts: 0 }, { ...read, parts: 0 }, "a manifest that was divided again");
  },
};

const commitRecord = {
  formatVersion,
  entry: {
    ...{ commit: 2, feedVersion, snapshotId: digest, archiveRoot: digest, scoresRoot: digest },
    ...{ indexRoot: digest, counts: { markets: 3, protocols: 1 } },
    ...{ publishedAt: told.newestResolvedAt, withdrawn: [[1, 1]] },
  },
  ...{ manifest: ref, changes: null, changeCounts: { added: 1, changed: 0, removed: 0 } },
  ...{ size: { objects: 1, bytes: 1 }, hold: false, previous: digest, tree: digest, note: "x" },
};
const file = { ...ref, rows: 1, root: digest, chunks: ref };
const stats = { minValues: { composite: 300 }, maxValues: { tier: "RAW" }, nullCount: { tier: 0 } };
const exported = { formatVersion, commit: 1, snapshotId: digest, archiveRoot: digest };
/** A record as JSON before it is sealed. */
const records = [
  [Commit, commitRecord],
  [Checked, { checkedAt: told.newestResolvedAt, commit: 1, outcome: "published", note: "x" }],
  [ExportRecord, { ...exported, publishedAt: told.newestResolvedAt, files: [{ ...file, stats }] }],
  [ChangeFiles, { formatVersion, changes: digest, files: [file] }],
  [Collecting, { keys: ["commits/0000000001.json"] }],
] as const;

const commit: Target = {
  seeds: () => [
    ...records.map(([, record], index) => `${index}${JSON.stringify(record)}`),
    `0${seal(commitRecord).toString()}`,
  ],
  words: ["__proto__", "toJSON", '"1":'],
  run(input) {
    const [schema] = records[(input[0] ?? 0) % records.length]!;
    const json = jsonIn(input.subarray(1));
    const isRecord = typeof json === "object" && json !== null && !("digest" in json);
    const { note: given, ...content } = isRecord ? json : { note: undefined };
    const noted = (note?: string) => (note === undefined ? {} : { note });
    const bytes = isRecord ? seal(content, () => noted(given)) : input.subarray(1);
    // Whichever of the records it is, it may have what a commit has.
    const read = (key: string, stored: Buffer) => unseal(key, stored, schema as unknown as typeof Commit);
    const record = refused(() => read("record", bytes), CorruptObjectError);
    if (!record) return;
    const { digest: _, note, ...known } = record;
    const again = read(
      "again",
      seal(known, () => noted(note)),
    );
    needSame({ ...again, digest: 0 }, { ...known, digest: 0, ...noted(note) }, "a sealed record");
    if ((schema as unknown) !== Commit) return;
    refused(() => checkAgreement(record), CorruptObjectError);
    need(entryOf(record).length > 0, "a commit has an entry");
    new Trust([testKey()]).refusalOfCommit(record);
  },
};

const origin = "prs.example/scores";
const logKey = testKey(origin);
const witnesses = [testKey("w1", "", "cosignature-ed25519"), testKey("w2", "", "ml-dsa-44")];
const policyText = [
  `log ${verifierText(logKey)} https://log.example`,
  ...witnesses.map((key, index) => `witness w${index} ${verifierText(key)}`),
  "group some 1 w0 w1",
  "quorum some\n",
].join("\n");
const policyRead = parsePolicy(Buffer.from(policyText), "policy");
const trust = new Trust(policyRead);
const keys = [...policyRead.logs, ...policyRead.witnesses].map(({ key }) => key);
const head = { size: 7, head: Buffer.alloc(32, 7) };
const noteOf = (cosigners: readonly (typeof logKey)[]) => {
  const note = signCheckpoint({ key: logKey }, head);
  const lines = cosigners.map(
    (key) => `${signatureLine(key, note.slice(0, note.indexOf("\n\n") + 1), 1e9)}\n`,
  );
  return note + lines.join("");
};

const cosigned = noteOf(witnesses);
const isCosigned = (note: string) =>
  parseNote(note).signatures.some(({ id }) => witnesses.some((witness) => witness.id === id));

/** A checkpoint that satisfies the policy, or why it does not. */
function counted(by: Trust, note: string) {
  const said = by.checkpoint(note);
  return "reason" in said || said.lacking === undefined ? said : { reason: said.lacking };
}

const note: Target = {
  seeds: () => [
    noteOf([]),
    noteOf([witnesses[0]!]),
    cosigned,
    keyText(origin),
    verifierText(witnesses[0]!),
    `${origin}\n7\n${head.head.toString("base64")}\nmore\n\n— x AAAAAAA=\n`,
  ],
  words: ["\u0085", "\u200b", "\ud83d\ude00"],
  async run(input) {
    const text = input.toString();
    const key = refused(() => parseVerifierKey(text), NoteKeyError);
    if (key) need(verifierText(key) === text, "a public key has one spelling");
    const secret = refused(() => parseSigningKey(text), NoteKeyError);
    if (secret)
      need(parseVerifierKey(verifierText(secret)).id === secret.id, "a private key has a public one");
    const parsed = refused(() => parseNote(text), NoteError);
    if (parsed) {
      const lines = parsed.signatures.map(({ line }) => `${line}\n`);
      need(`${parsed.text}\n${lines.join("")}` === text, "a note is its parts");
      const merged = mergeNotes(text, text, keys);
      need(mergeNotes(text, merged, keys) === merged, "merging a note with itself is done at once");
    }
    const checkpoint = refused(() => parseCheckpoint(text), NoteError);
    if (checkpoint) need(text.startsWith(`${checkpointText(checkpoint)}\n`), "a checkpoint is its text");
    const ours = counted(trust, text);
    const theirs = await refusedLater(() => verifyCheckpoint(text, policyText), IntegrityError);
    refused(() => checkpointIn(text), IntegrityError);
    need(
      "reason" in ours === (theirs === undefined),
      `we say ${JSON.stringify(ours)}, the client ${theirs?.size}`,
    );
    if (theirs && "size" in ours)
      needSame([theirs.size, theirs.cosigners > 0], [ours.size, isCosigned(ours.note)], "what both read");
  },
};

const policy: Target = {
  seeds: () => [
    policyText,
    // A comment with a control character.
    `#\r\nlog ${verifierText(logKey)}\nquorum none\n`,
    `# none\nlog ${verifierText(logKey)}\nquorum none\n`,
    `witness a ${verifierText(witnesses[0]!)}\ngroup g all a\ngroup h any g\nquorum h`,
  ],
  words: ["\t"],
  async run(input) {
    const read = refused(() => parsePolicy(input, "policy"), "KEY_FILE");
    const text = input.toString();
    const isText = Buffer.from(text).equals(input) && /\s/.test(text.trim());
    const client = isText && (await refusedLater(() => verifyCheckpoint(cosigned, text), ApiError));
    if (!read) return need(!client, "the client reads a policy that we refuse");
    const all = new Set(read.witnesses.map(({ key }) => key));
    need(isQuorum(read, all), "all witnesses are enough");
    need(read.quorum === undefined || !isQuorum(read, new Set()), "no witness is not enough");
    if (isText) {
      const ours = read.logs.length > 0 && !("reason" in counted(new Trust(read), cosigned));
      need(ours === Boolean(client), `whether it counts: ${ours} here, ${Boolean(client)} in the client`);
    }
    const lines: string[] = [];
    const name = (member: Witness | Group): string => {
      if ("key" in member) return `w${read.witnesses.indexOf(member)}`;
      const members = member.members.map(name);
      return `g${lines.push(`group g${lines.length + 1} ${member.least} ${members.join(" ")}`)}`;
    };
    for (const { key } of read.logs) lines.push(`log ${verifierText(key)}`);
    for (const witness of read.witnesses) lines.push(`witness ${name(witness)} ${verifierText(witness.key)}`);
    const quorum = read.quorum ? name(read.quorum) : "none";
    const again = parsePolicy(Buffer.from([...lines, `quorum ${quorum}`].join("\n")), "policy");
    const shape = ({ quorum, logs }: typeof read) => [logs.map(({ key }) => key.id), quorumShape(quorum)];
    needSame(shape(again), shape(read), "a policy that was written again");
  },
};

const quorumShape = (member: Witness | Group | undefined): unknown =>
  member && ("key" in member ? member.key.id : [member.least, member.members.map(quorumShape)]);

const tile: Target = {
  seeds: () => [
    "0/x001/234.p/5",
    "entries/000",
    Buffer.concat([Buffer.from("3/x999/x999/999\0"), encodeEntries([Buffer.from("{}"), Buffer.alloc(0)])]),
    Buffer.concat([Buffer.from("\0\x03\x02"), Buffer.alloc(96, 1)]),
  ],
  words: ["entries/", ".p/", "/x", "/000"],
  async run(input) {
    const [name, rest] = parted(input);
    const found = tileAt(name.toString());
    if (found) {
      need(tilePath(found) === name.toString(), "a tile has one path");
      need(found.width >= 1 && found.width <= 256, `a tile of ${found.width}`);
    }
    const entries = decodeEntries(rest);
    if (entries) need(encodeEntries(entries).equals(rest), "a bundle is its entries");
    const [size, first] = [1 + (rest[0] ?? 0) * 256 + (rest[1] ?? 0), 1 + (rest[2] ?? 0)];
    const hashes = rest.subarray(3);
    // Whatever is asked for, as far as there is something.
    const tiles = async (level: number, index: number, width: number) =>
      level > 3 ? undefined : hashes.subarray((index % 2) * 32, (index % 2) * 32 + width * 32);
    const read = <T>(work: () => Promise<T>) => refusedLater(work, TileError, RangeError);
    const top = await read(() => headFromTiles(tiles, size));
    await read(() => inclusionFromTiles(tiles, first - 1, size));
    const path = await read(() => consistencyFromTiles(tiles, first, size));
    if (top && path) isConsistent({ size: first, head: top }, { size, head: top }, path);
  },
};

const ids: Target = {
  // Of a whole number of markets or not, and with an ordinal beyond the last.
  seeds: () => [encodeIds([5, 3, 3, 2 ** 32 - 1]), encodeIds([0]), Buffer.alloc(7), Buffer.alloc(6, 1)],
  run(stored) {
    // A manifest says how many there are.
    const count = Math.max(1, Math.floor(stored.length / 6));
    if (refused(() => requireIds("ids", stored, count) ?? true, CorruptObjectError) === undefined) return;
    const hashes = decodeIds(stored);
    need(hashes.length === count, "there is a hash for each market");
    const filter = new IdFilter(stored);
    for (const wanted of [hashes[0]!, stored.readUInt32LE(0), 0, 2 ** 32 - 1]) {
      filter.mayHold(wanted);
      const { from, to } = entriesOf(stored, wanted);
      need(from >= 0 && from <= to && to <= count, `${from} to ${to} of ${count}`);
      const ordinals = ordinalsOf(stored, wanted);
      need(
        ordinals.length === to - from && ordinals.every((ordinal) => ordinal < count),
        "each has an ordinal",
      );
    }
    const first = stored.readUInt32LE(0);
    need(filter.mayHold(first), "a filter knows what it was made of");
    const asked = Float64Array.of(first * 65_536, first * 65_536 + 1);
    need([...mayShare(stored, asked)].length <= count, "few may share a hash");
    const again = encodeIds([...hashes]);
    need(encodeIds([...decodeIds(again)]).equals(again), "ids that were encoded again");
  },
};

export const targets: Record<string, Target> = { manifest, commit, note, policy, tile, ids };
