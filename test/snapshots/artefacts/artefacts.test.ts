import { execFileSync } from "node:child_process";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { inListOrder, listEntryOf, type ProtocolScore } from "../../../schemas/records.ts";
import type { ExportRecord, Tiers } from "../../../schemas/store/stored-objects.ts";
import { type ForgeTier, forgeScaleNumber, forgeTiers, formatVersion } from "../../../schemas/versions.ts";
import {
  changeId,
  maxChanges,
  readTiers,
  renderArtefacts,
  slugOfArtefact,
  tiersAfter,
} from "../../../snapshots/artefacts/artefacts.ts";
import { badgeColours, renderBadge } from "../../../snapshots/artefacts/badge.ts";
import { cardKey, drawCard } from "../../../snapshots/artefacts/card.ts";
import { placeOf, renderProtocolPage } from "../../../snapshots/artefacts/pages.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { score } from "../../helpers/publish/records.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const golden = join(import.meta.dirname, "golden");
const checker = join(import.meta.dirname, "check.py");
const places = {
  site: "https://scores.example.org/",
  api: "https://api.example.org/api/v1",
  license: "https://spdx.org/licenses/CC-BY-4.0",
  citeAs: "@misc{scores, title = {Protocol Risk Scores}}",
};
const part = { hash: "2".repeat(64), bytes: 64 };
const exported: ExportRecord = {
  formatVersion,
  commit: 6,
  snapshotId: "1".repeat(64),
  archiveRoot: "3".repeat(64),
  publishedAt: "2026-02-02T09:00:00.000Z",
  files: [50_000, 1_234].map((rows) => {
    return { rows, hash: "4".repeat(64), bytes: rows * 500, root: "5".repeat(64), chunks: part };
  }),
  digest: "6".repeat(64),
};
const facts = {
  commit: 7,
  exported,
  list: { hash: "0".repeat(64), bytes: 321 },
  newestUpdatedAt: "2026-02-02T08:21:59.229Z",
};

const rated = (slug: string, forgeScale: ForgeTier, bri = 700): ProtocolScore => ({
  ...score(slug, bri),
  forgeScale,
  forgeScaleNum: forgeScaleNumber(forgeScale),
});

const hostile = `"/><script>alert(1)</script><!--'&amp;\u202e\u0000\ufffe]]></title>\u2028\ud800`;
const odd: ProtocolScore = {
  ...rated("0.a_b-c", "RAW", 0),
  evidenceHash: hostile,
  metadata: { category: hostile, chain: hostile, tvl: hostile, contracts: 0, zFactor: -0.5 },
};

const at = (day: number) => new Date(Date.UTC(2026, 1, day)).toISOString();

/** Records as the store has them. */
const stored = (records: readonly ProtocolScore[]) =>
  records.map((record) => ({ record, hash: sha256(JSON.stringify(record)) }));

/** The texts of pages by slug, of artefacts that the checker finds right. Throws with its message. */
async function checked(name: string, site: string, files: ReadonlyMap<string, Buffer>) {
  const root = join(folder, name);
  for (const [key, bytes] of files) {
    await mkdir(dirname(join(root, key)), { recursive: true });
    await writeFile(join(root, key), bytes);
  }
  return JSON.parse(execFileSync("python3", [checker, join(root, "public"), site], { encoding: "utf8" }));
}

/** JSON with a line for each item of its long lists; other texts as they are. */
function inLines(text: string): string {
  if (!text.startsWith("{\n")) return text;
  const value = JSON.parse(text);
  expect(text).toBe(`${JSON.stringify(value, null, 1)}\n`);
  return `${spelled(value, "\n")}\n`;
}

const hasLongList = (value: unknown): boolean =>
  Array.isArray(value)
    ? JSON.stringify(value).length > 300
    : typeof value === "object" && value !== null && Object.values(value).some(hasLongList);

function spelled(value: unknown, start: string): string {
  if (!hasLongList(value)) return JSON.stringify(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const members = Object.entries(value as object).map(([name, member]) => {
    const text = spelled(member, `${start} `);
    return `${start} ${open === "[" ? text : `"${name}": ${text}`}`;
  });
  return `${open}${members.join()}${start}${close}`;
}

describe("renderArtefacts()", () => {
  const before = tiersAfter(undefined, [rated("aave", "CAST"), odd], at(1));
  const records = [odd, rated("aave", "MITHRIL"), rated("constructor", "DAMASCUS")];
  const tiers = tiersAfter(before, records, at(2));
  const files = renderArtefacts(places, stored(records), tiers, facts);

  test("gives the golden files, byte for byte", async () => {
    const shown = [...files].filter(([key]) => [undefined, odd.slug].includes(slugOfArtefact(key)));
    for (const [key, bytes] of shown)
      await expect(inLines(String(bytes))).toMatchFileSnapshot(join(golden, key));
    const kept = await readdir(golden, { recursive: true, withFileTypes: true });
    expect(kept.filter((entry) => entry.isFile())).toHaveLength(shown.length);
  });

  test("is well-formed, and hostile texts stay text", async () => {
    const texts = await checked("fields", places.site, files);
    const shown = `"/><script>alert(1)</script><!--'&amp;\u202e\ufffd\ufffd]]></title>\u2028\ufffd`;
    expect(texts["0.a_b-c"].split(shown)).toHaveLength(5);
    for (const [key, bytes] of files) {
      if (!key.endsWith(".html")) continue;
      const [, body = ""] = /<body[^>]*>(.*)/s.exec(String(bytes))!;
      // Directions do not spread to the words around a text.
      expect(body.replace(/<bdi>[^<]*<\/bdi>/g, ""), key).not.toContain("\u202e");
    }
  });

  test("is right with any texts, an odd address and no API", async () => {
    const site = "https://h.example:8443/a&b/'c/";
    const texts = fc.string({ unit: "binary", maxLength: 20 });
    const values = fc.sample(fc.tuple(texts, texts, texts, texts), 3);
    const any = values.map(([category, chain, tvl, evidenceHash], place) => {
      const base = rated(`p${place}`, forgeTiers[place]!);
      return { ...base, evidenceHash, metadata: { ...base.metadata, category, chain, tvl } };
    });
    const others = { site, api: null, license: null, citeAs: null };
    const all = renderArtefacts(others, stored(any), tiersAfter(undefined, any, at(3)), facts);
    expect(Object.keys(await checked("any", site, all))).toHaveLength(3);
  });

  test("does not touch a protocol's page when the score of one that is no neighbour changes", () => {
    const page = layout.protocolPage(odd.slug);
    const pageBeside = (...others: ProtocolScore[]) =>
      renderArtefacts(places, stored([odd, ...others]), tiers, facts).get(page);
    const three = Array.from({ length: 3 }, (_, n) => rated(`p${n}`, "RAW", 300 + n));
    const [before, after] = [900, 901].map((bri) => pageBeside(...three, rated("top", "CAST", bri)));
    expect(after).toEqual(before);
    // Its place is another one.
    expect(pageBeside(...three)).not.toEqual(before);
  });
});

test("a card has the same bytes everywhere, and few", () => {
  const cards: [ProtocolScore, string][] = [
    [rated("aave", "MITHRIL"), "d8525a11d0fc6c58d4a63085e5f26466da3021a4b8bba0fd6af88a4148e119ed"],
    [
      rated("w".repeat(100), "CAST", 1000),
      "46e6e065d5a2751c874422545286d15850c7b0d98b0d6fd94bec62a2b8a052cb",
    ],
    [rated("a-_.9z", "RAW", 0), "bd083bef7349bb8460bf58ddfb576f0111c1b31efc9338e8a58f3c2a37707968"],
  ];
  for (const [record, hash] of cards) {
    const bytes = drawCard(record);
    expect([record.slug, sha256(bytes)]).toEqual([record.slug, hash]);
    expect(bytes.length).toBeLessThan(27_000);
  }
  expect(cardKey("aave", "x")).not.toBe(cardKey("aave", "y"));
});

test("a badge stays below 1.5 kB with the longest slug, and is white on colours with a contrast of 4.5 at least", () => {
  const record = rated("w".repeat(100), "ADAMANTINE", 1000);
  expect(Buffer.byteLength(renderBadge(record).text)).toBeLessThanOrEqual(1500);
  for (const colour of Object.values(badgeColours)) {
    const luminances = colour.match(/[0-9a-f]{2}/g)!.map((hex, place) => {
      const part = Number.parseInt(hex, 16) / 255;
      return (
        [0.2126, 0.7152, 0.0722][place]! * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
      );
    });
    expect(1.05 / (luminances.reduce((sum, one) => sum + one) + 0.05)).toBeGreaterThanOrEqual(4.5);
  }
});

test("a page says its place and its neighbours, links to the live one, and says what every number means", () => {
  const list = inListOrder([
    listEntryOf(rated("aave", "MITHRIL")),
    ...Array.from({ length: 8 }, (_, n) => listEntryOf(rated(`p${n}`, "CAST", 640 + 20 * n))),
  ]);
  const place = placeOf("aave", list);
  const { text } = renderProtocolPage(places, rated("aave", "MITHRIL"), place, layout.card("aave-0"));
  expect(text).toContain("Place <b>5</b> of 9");
  const linked = [...text.matchAll(/href="[./]+protocols\/(\w+)\//g)].map(([, slug]) => slug);
  expect(linked).toEqual(["p5", "p4", "p3", "p2"]);
  expect(placeOf("p3", list)).toMatchObject({ rank: 5, of: 9 });
  expect(text).toContain('href="../../index.html#/protocols/aave"');
  expect(text.match(/higher is safer/g)!.length).toBeGreaterThanOrEqual(3);
});

describe("tiersAfter(before, records, publishedAt)", () => {
  const start = tiersAfter(undefined, [rated("aave", "CAST"), rated("gone", "RAW")], at(1));

  test("keeps changes for 30 days, newest first, of none that came or went; the same commit again adds none", () => {
    expect(tiersAfter(start, [rated("aave", "CAST"), rated("constructor", "RAW")], at(2)).changes).toEqual(
      [],
    );
    let tiers: Tiers = start;
    for (let day = 2; day <= 40; day += 1) {
      const records = [rated("aave", day % 2 ? "CAST" : "FORGED", day)];
      tiers = tiersAfter(tiers, records, at(day));
      expect(tiersAfter(tiers, records, at(day))).toEqual(tiers);
    }
    expect(tiers.changes).toHaveLength(31);
    expect(tiers.changes[0]).toEqual({ slug: "aave", from: "CAST", to: "FORGED", bri: 40, at: at(40) });
    expect(tiers.changes.at(-1)!.at).toBe(at(10));
    expect(new Set(tiers.changes.map(changeId)).size).toBe(31);
  });

  test("holds no more than the newest changes, however many protocols move", () => {
    const all = (tier: ForgeTier) => Array.from({ length: maxChanges + 9 }, (_, n) => rated(`p${n}`, tier));
    const moved = tiersAfter(tiersAfter(undefined, all("CAST"), at(1)), all("RAW"), at(2));
    expect(moved.changes).toHaveLength(maxChanges);
  });

  test("is read back as it was stored; anything else counts as nothing", () => {
    expect(readTiers(Buffer.from(JSON.stringify(start)))).toEqual(start);
    for (const bytes of ["", "{}", "[]", '{"since":"x"}', JSON.stringify({ ...start, more: 1 })])
      expect(readTiers(Buffer.from(bytes))).toBeUndefined();
    expect(readTiers(undefined)).toBeUndefined();
  });
});
