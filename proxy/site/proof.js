/** @import { MarketProof } from "../../schemas/envelopes.ts" */

// Checks what the service answers to GET /api/v1/markets/:id/proof, in browsers and in Node from version 20 on. It needs
// nothing but WebCrypto, and follows snapshots/SPEC.md, "Proofs", not the service's own code.

/** A proof does not hold. The message says which step of it fails. */
export class ProofError extends Error {
  /** @override */
  name = "ProofError";
}

/**
 * @param {unknown} holds
 * @param {string} message
 * @returns {asserts holds}
 */
function check(holds, message) {
  if (!holds) throw new ProofError(message);
}

const bytesOf = (/** @type {string} */ text) => new TextEncoder().encode(text);

/** The SHA-256 over consecutive parts; a number stands for one byte.
 * @param {(number | Uint8Array)[]} parts */
async function sha256(...parts) {
  const bytes = Uint8Array.from(parts.flatMap((part) => (typeof part === "number" ? part : [...part])));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

const hexOf = (/** @type {Uint8Array} */ bytes) =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {unknown} hex */
function hashOf(hex) {
  check(typeof hex === "string" && /^[0-9a-f]{64}$/.test(hex), "a hash is not 64 lower-case hex digits");
  return Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}

/** @param {unknown} value */
function uint64(value) {
  check(Number.isSafeInteger(value) && Number(value) >= 0, "a number is no integer from 0 to 2^53-1");
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(Number(value)), true);
  return bytes;
}

/** The root of the tree in which `hash` is the child of this index.
 * @param {number} kind
 * @param {Uint8Array} hash
 * @param {MarketProof["proof"]["page"]} level */
async function rootFrom(kind, hash, { index, size, markets, path }) {
  const sizes = [uint64(markets), uint64(size)];
  uint64(index);
  check(index < size, "an index is not below its size");
  check(Array.isArray(path) && path.length <= 64, "a path is no list of at most 64 hashes");
  let [head, at, last] = [hash, index, size - 1];
  for (const step of path) {
    check(last > 0, "a path is too long");
    const other = hashOf(step);
    const onRight = at % 2 === 1 || at === last;
    head = onRight ? await sha256(1, other, head) : await sha256(1, head, other);
    for (; onRight && at > 0 && at % 2 === 0; last = Math.floor(last / 2)) at /= 2;
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  check(last === 0, "a path is too short");
  return sha256(kind, ...sizes, head);
}

/** The snapshot id that a market's text and its proof lead to.
 * @param {string} market
 * @param {MarketProof["proof"]} proof */
async function snapshotIdFrom(market, { page, segment, archive, scoresRoot, ...rest }) {
  let root = await sha256(0, bytesOf(market));
  root = await rootFrom(2, root, page);
  root = await rootFrom(3, root, segment);
  root = await rootFrom(4, root, archive);
  hashOf(scoresRoot);
  uint64(rest.protocols);
  check(rest.formatVersion === 2, "this checks proofs of format version 2 only");
  check(/^[!-~]+$/.test(rest.feedVersion), "the feed version has other characters than visible ASCII");
  const lines = [
    `prs-snapshot ${rest.formatVersion} ${rest.feedVersion}`,
    `markets ${archive.markets}`,
    `protocols ${rest.protocols}`,
    `archive ${hexOf(root)}`,
    `scores ${scoresRoot}`,
  ];
  return hexOf(await sha256(bytesOf(lines.map((line) => `${line}\n`).join(""))));
}

/** Decodes base64 that has one spelling only.
 * @param {string} text */
function base64(text) {
  const [bytes, again] = decoded(text);
  check(again === text, "the checkpoint or key holds something that is no base64");
  return bytes;
}

/** @param {string} text
 * @returns {[Uint8Array<ArrayBuffer>, string]} */
function decoded(text) {
  try {
    const raw = atob(text);
    return [Uint8Array.from(raw, (char) => char.charCodeAt(0)), btoa(raw)];
  } catch {
    return [new Uint8Array(), ""];
  }
}

/** Checks that the key signed a checkpoint of this commit and snapshot.
 * @param {string | null} checkpoint
 * @param {string} vkey
 * @param {{ commit: number, snapshotId: string }} expected */
async function checkCheckpoint(checkpoint, vkey, { commit, snapshotId }) {
  check(typeof checkpoint === "string", "the commit is not signed: there is no checkpoint");
  const [, name = "", id = "", encoded = ""] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(vkey) ?? [];
  const key = base64(encoded);
  const named = hexOf(await sha256(bytesOf(`${name}\n`), key)).slice(0, 8);
  check(key.length === 33 && key[0] === 1 && named === id, "the key is not NAME+ID+BASE64 of an Ed25519 key");
  const cut = checkpoint.lastIndexOf("\n\n") + 1;
  const text = checkpoint.slice(0, cut);
  const [origin, number, , extension] = text.split("\n");
  check(origin === name && number === String(commit), "the checkpoint is of another log or commit");
  check(extension === `snapshot ${snapshotId}`, "the checkpoint is of another snapshot");
  const lines = checkpoint.slice(cut + 1).split("\n");
  check(lines.pop() === "", "the checkpoint does not end with a line feed");
  const signatures = lines.map((line) => {
    const [dash, signer, signature, more] = line.split(" ");
    check(dash === "—" && signer && signature && !more, "the checkpoint has a line that is no signature");
    return { signer, bytes: base64(signature) };
  });
  const own = signatures.find(({ signer, bytes }) => signer === name && hexOf(bytes.slice(0, 4)) === id);
  check(own, "the key did not sign the checkpoint");
  const ed25519 = await crypto.subtle.importKey("raw", key.slice(1), "Ed25519", false, ["verify"]);
  const good = await crypto.subtle.verify("Ed25519", ed25519, own.bytes.slice(4), bytesOf(text));
  check(good, "the signature of the checkpoint is wrong");
}

/**
 * Checks that the market belongs to the snapshot, and returns its record. Give what you know: the `id` you asked for; the
 * `snapshotId` if you hold one that you trust; the `key` of the publisher, `NAME+ID+BASE64`, to have the checkpoint's
 * signature checked too. Without the last two, the proof only shows that the answer agrees with itself. Throws ProofError,
 * and a DOMException in browsers without Ed25519.
 * @param {MarketProof} answer
 * @param {{ id?: string, snapshotId?: string, key?: string }} [known]
 */
export async function verifyProof(answer, { id, snapshotId, key } = {}) {
  const { page, segment, archive } = answer.proof ?? {};
  check(typeof answer.market === "string" && page && segment && archive, "the answer lacks members");
  const found = await snapshotIdFrom(answer.market, answer.proof);
  check(found === answer.snapshotId, "the market does not belong to the snapshot");
  check(snapshotId === undefined || snapshotId === found, "the proof is about another snapshot");
  const record = JSON.parse(answer.market);
  check(id === undefined || record.id === id, "the proof is about another market");
  if (key !== undefined) await checkCheckpoint(answer.checkpoint, key, answer);
  return record;
}
