import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { issueKey, readKeys, revokeKey } from "../../snapshots/keys/records.ts";
import { keyRing } from "../../snapshots/keys/ring.ts";
import { collectGarbage } from "../../snapshots/maintain/gc.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { directoryStorage } from "../../snapshots/store/directory.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { Trust } from "../../snapshots/trust/trust.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { publishArchive, slugs } from "../helpers/publish/proxy-archive.ts";
import { testFolder } from "../helpers/store/archive-store.ts";
import { listed } from "../helpers/store/faulty-store.ts";
import {
  callers,
  distribution,
  guardedStorage,
  mayDo,
  names,
  policies,
  type Role,
  type StoreRequest,
} from "../helpers/store/guarded-store.ts";
import type { Policy } from "../helpers/store/iam.ts";
import { testKey } from "../helpers/store/signing.ts";

const folder = testFolder();
const hash = "0123456789abcdef".repeat(4);
const roles = ["publisher", "gc", "proxy", "key-issuer"] as const satisfies Role[];

/** What each role may do with each kind of object: get, put, create where there is none, delete. */
const rights: Record<string, readonly [key: string, ...rights: string[]]> = {
  //                 example                             publisher  gc    proxy  key-issuer
  collectingRecord: [layout.collectingRecord("0123456789abcdef"), "g", "pcd", "g", ""],
  head: [layout.head, "gpc", "", "g", ""],
  checked: [layout.checked, "gpc", "g", "g", ""],
  probe: [layout.probe, "gpc", "", "g", ""],
  commit: [layout.commit(42), "gc", "g", "g", ""],
  manifest: [layout.manifest(hash), "gpc", "gd", "g", ""],
  publicObject: [layout.publicObject(hash), "gpc", "d", "g", ""],
  stableScoreList: [layout.stableScoreList, "gpc", "d", "g", ""],
  stableScore: [layout.stableScore("curve.fi"), "gpc", "d", "g", ""],
  siteIndex: [layout.siteIndex, "gpc", "d", "g", ""],
  siteFile: [layout.siteFile("app.js"), "gpc", "d", "g", ""],
  badge: [layout.badge("curve.fi"), "gpc", "d", "g", ""],
  protocolPage: [layout.protocolPage("curve.fi"), "gpc", "d", "g", ""],
  tiers: [layout.tiers, "gpc", "d", "g", ""],
  feed: [layout.feed, "gpc", "d", "g", ""],
  sitemap: [layout.sitemap, "gpc", "d", "g", ""],
  llms: [layout.llms, "gpc", "d", "g", ""],
  dataset: [layout.dataset, "gpc", "d", "g", ""],
  apiCatalog: [layout.apiCatalog, "gpc", "d", "g", ""],
  checkpoint: [layout.checkpoint, "gpc", "gd", "g", ""],
  privateObject: [layout.privateObject(hash), "gpc", "d", "g", ""],
  segment: [layout.segment(hash), "gpc", "gd", "g", ""],
  rowsOf: [layout.rowsOf(hash), "gpc", "d", "g", ""],
  originsOf: [layout.originsOf(hash), "gpc", "d", "g", ""],
  sourceFilesOf: [layout.sourceFilesOf(hash), "gpc", "d", "g", ""],
  changeRecord: [layout.changeRecord(hash), "gpc", "gd", "g", ""],
  changePart: [layout.changePart(hash), "gpc", "gd", "g", ""],
  idsOf: [layout.idsOf(hash), "gpc", "d", "g", ""],
  wordsOf: [layout.wordsOf(hash), "gpc", "d", "g", ""],
  page: [layout.page(hash), "gpc", "d", "g", ""],
  exportRecord: [layout.exportRecord(hash), "gpc", "gd", "g", ""],
  exportFile: [layout.exportFile(hash), "gpc", "d", "g", ""],
  exportChunksOf: [layout.exportChunksOf(hash), "gpc", "d", "g", ""],
  key: [layout.key("0123456789abcdef"), "", "", "g", "gc"],
  keyRevocation: [layout.keyRevocation("0123456789abcdef"), "", "", "g", "gc"],
};
const letters = { get: "g", put: "p", putIfAbsent: "c", delete: "d" } as const;
const operations = Object.keys(letters) as (keyof typeof letters)[];
const everything: Policy = {
  Version: "2012-10-17",
  Statement: [{ Sid: "Everything", Effect: "Allow", Action: "s3:*", Resource: "*" }],
};

/** What a role's own policy and the bucket's say to it. */
function by(role: Role, common: Partial<StoreRequest> = {}) {
  return (request: StoreRequest) =>
    mayDo(callers.role(role), policies.roles[role], { ...request, ...common });
}

/** The operations that pass, as letters. */
function passing(may: (request: StoreRequest) => boolean, key: string): string {
  return operations
    .filter((operation) => may({ operation, key }))
    .map((operation) => letters[operation])
    .join("");
}

test("every kind of object has its rights said here", () => {
  // The other entries of the layout are prefixes.
  const kinds = Object.entries(layout).filter(([, key]) => typeof key !== "string" || !key.endsWith("/"));
  expect(kinds.map(([kind]) => kind).sort()).toEqual(Object.keys(rights).sort());
});

describe("roles", () => {
  test.each(Object.entries(rights))(
    "have the rights they need on %s, and no more",
    (_, [key, ...expected]) => {
      const actual = roles.map((role) =>
        passing((request) => mayDo(callers.role(role), policies.roles[role], request), key),
      );
      expect(actual).toEqual(expected);
    },
  );

  test("list what they work on", () => {
    const lists = (role: Role, key: string) => by(role)({ operation: "list", key });
    for (const prefix of ["", layout.commits, layout.pages, layout.keys]) {
      for (const role of ["publisher", "gc", "proxy"] as const) expect(lists(role, prefix)).toBe(true);
    }
    expect(lists("key-issuer", layout.keys)).toBe(true);
    for (const prefix of ["", layout.commits, layout.pages]) expect(lists("key-issuer", prefix)).toBe(false);
  });

  test("stay within the store, except for the publisher, which reads the sources", () => {
    for (const bucket of [names.SOURCES_BUCKET, "other"]) {
      const expected = bucket === "other" ? "" : "g";
      const actual = roles.map((role) => passing(by(role, { bucket }), "public/x.json"));
      expect(actual, bucket).toEqual([expected, "", "", ""]);
      const lists = roles.map((role) => by(role, { bucket })({ operation: "list", key: layout.keys }));
      expect(lists, bucket).toEqual([expected === "g", false, false, false]);
    }
  });

  test("have no right that is none of reading, writing, listing and deleting", () => {
    const others = [
      "GetObjectVersion",
      "DeleteObjectVersion",
      "PutObjectAcl",
      "PutObjectTagging",
      "PutBucketPolicy",
    ];
    for (const [key] of [...Object.values(rights), [""]]) {
      for (const role of roles) {
        const passed = others.filter((action) => by(role)({ operation: `s3:${action}`, key }));
        expect(passed, `${role} ${key}`).toEqual([]);
      }
    }
  });

  test("have no rights on objects of unknown kinds, except for the proxy, which reads", () => {
    for (const key of ["other.json", "keysearch/x", "publicity/x", "commits.json", "index.html"]) {
      expect(
        roles.map((role) => passing(by(role), key)),
        key,
      ).toEqual(["", "", "g", ""]);
    }
  });
});

describe("the bucket's policy", () => {
  test.each(Object.entries(rights))(
    "lets the CDN read %s only if it is public, and nobody unknown",
    (_, [key]) => {
      const cdn = (request: StoreRequest) => mayDo(callers.cdn, undefined, request, distribution());
      expect(passing(cdn, key)).toBe(key.startsWith("public/") ? "g" : "");
      const otherCdn = (request: StoreRequest) =>
        mayDo(callers.cdn, undefined, request, distribution("EOTHER"));
      expect(passing(otherCdn, key)).toBe("");
      expect(passing((request) => mayDo(callers.cdn, undefined, request), key)).toBe("");
      expect(passing((request) => mayDo(callers.anyone, undefined, request, distribution()), key)).toBe("");
      expect(passing((request) => mayDo(callers.role("stranger"), undefined, request), key)).toBe("");
    },
  );

  test("gives no listing to the CDN and to nobody unknown", () => {
    for (const key of ["", "public/"]) {
      expect(mayDo(callers.cdn, undefined, { operation: "list", key }, distribution())).toBe(false);
      expect(mayDo(callers.anyone, undefined, { operation: "list", key })).toBe(false);
    }
  });

  test("holds against roles that were given every right by mistake", () => {
    const mistaken = (role: string, key: string) =>
      passing((request) => mayDo(callers.role(role), everything, request), key);
    for (const [key] of Object.values(rights)) {
      for (const role of ["publisher", "proxy", "key-issuer", "admin"]) {
        expect(mistaken(role, key), `${role} ${key}`).not.toContain("d");
      }
    }
    for (const [key] of [rights.key!, rights.keyRevocation!]) {
      for (const role of ["publisher", "gc", "admin"]) expect(mistaken(role, key)).toBe("");
    }
    for (const [key] of [rights.page!, rights.segment!, rights.manifest!, rights.commit!]) {
      for (const role of ["key-issuer", "admin"]) expect(mistaken(role, key)).not.toContain("g");
    }
    // A former customer would be back if a revocation could be deleted, or replaced by one of a later time.
    const revocation = layout.keyRevocation("0123456789abcdef", 1);
    for (const role of [...roles, "admin"]) {
      expect(mistaken(role, revocation)).not.toMatch(/[pd]/);
      const version = { operation: "s3:DeleteObjectVersion", key: revocation } as const;
      expect(mayDo(callers.role(role), everything, version)).toBe(false);
    }
    // A commit that was replaced would rewrite history.
    expect(mistaken("publisher", layout.commit(1))).toBe("gc");
  });

  test("allows nothing without TLS", () => {
    const plain = { operation: "get", key: layout.stableScoreList, plain: true } as const;
    expect(by("proxy")(plain)).toBe(false);
    expect(mayDo(callers.cdn, undefined, plain, distribution())).toBe(false);
  });

  test("goes with a bucket that cannot be made public", () => {
    const block = JSON.parse(read("public-access-block"));
    const sides = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];
    expect(block).toEqual(Object.fromEntries(sides.map((side) => [side, true])));
    for (const { Sid, Effect, Principal } of policies.bucket.Statement) {
      if (Effect === "Allow") expect(Principal, Sid).toEqual({ Service: "cloudfront.amazonaws.com" });
    }
    const control = JSON.parse(read("cdn-origin-access-control"));
    expect(control).toMatchObject({ SigningBehavior: "always", OriginAccessControlOriginType: "s3" });
  });
});

describe("a store behind the policies", () => {
  const storage = directoryStorage(join(folder, "store"));
  const as = (role: Role) => guardedStorage(storage, role);

  test("is published, served and given keys by the roles, each with its own rights", async () => {
    await publishArchive(as("publisher"));
    await publishArchive(as("publisher"));
    await publishArchive(as("publisher"), { bri: 701 });

    const { record } = await issueKey(as("key-issuer"), { plan: "aegis", owner: "partner" }, new Date());
    await revokeKey(as("key-issuer"), record.id, new Date());
    expect((await readKeys(as("key-issuer"))).records).toEqual([record]);

    const catalog = new Catalog(as("proxy"), { cacheBytes: 1_000_000 });
    await catalog.refresh();
    expect(catalog.current()?.commit.commit).toBe(2);
    expect(Object.keys(catalog.current()?.manifest.scores.records ?? {})).toHaveLength(slugs.length);
    const ring = keyRing(as("proxy"), { now: Date.now, damaged: () => expect.unreachable() });
    await ring.reload();
    expect(ring.ready()).toBe(true);
    expect((await verify(as("proxy"), () => {})).faults).toEqual([]);
    expect((await verify(as("publisher"), () => {}, { keys: false })).faults).toEqual([]);
  });

  test("is rolled back by the publisher and collected by gc", async () => {
    const gone = layout.stableScore("gone");
    await as("publisher").put(gone, Buffer.from("{}"));
    await rollback(as("publisher"), "1", () => new Date());

    const later = new Date(Date.now() + 3_600_000);
    const keep = { keepHours: 0, keepCommits: 1, keepChangesDays: 100_000 };
    // It may read what it needs to judge the log, and refuses this one, which nobody signed.
    const trusting = { ...keep, trust: new Trust([testKey()]), now: later, dryRun: false };
    await expect(collectGarbage(as("gc"), trusting)).rejects.toThrow("nobody signed it");
    const done = await collectGarbage(as("gc"), { ...keep, now: later, dryRun: false });
    expect(done.deleted.keys).toContain(gone);
    expect(await listed(storage, layout.collecting)).toEqual([]);
    const kinds = new Set(done.deleted.keys.map((key) => key.slice(0, key.lastIndexOf("/") + 1)));
    expect([...kinds]).toEqual([
      layout.manifests,
      layout.publicObjects,
      `${layout.stableScores}scores/`,
      layout.privateObjects,
    ]);
    expect((await verify(as("proxy"), () => {})).faults).toEqual([]);
  });

  test("refuses what is not a role's business", async () => {
    await expect(as("publisher").delete(layout.head)).rejects.toThrow("403 AccessDenied for publisher");
    await expect(as("publisher").get(layout.key("0"))).rejects.toThrow("403");
    await expect(as("publisher").put(layout.commit(1), Buffer.from("{}"))).rejects.toThrow("403");
    await expect(as("gc").put(layout.head, Buffer.from("{}"))).rejects.toThrow("403");
    await expect(as("gc").delete(layout.commit(1))).rejects.toThrow("403");
    await expect(as("proxy").put(layout.head, Buffer.from("{}"))).rejects.toThrow("403");
  });
});

function read(name: string): string {
  return readFileSync(new URL(`../../.github/deploy/${name}.json`, import.meta.url), "utf8");
}
