import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { issueKey, readKeys, revokeKey } from "../../snapshots/keys/records.ts";
import { keyRing } from "../../snapshots/keys/ring.ts";
import { collectGarbage } from "../../snapshots/maintain/gc.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { kindOf, layout } from "../../snapshots/store/layout.ts";
import { Trust } from "../../snapshots/trust/trust.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { deployed } from "../helpers/http/deployed.ts";
import { publishArchive, slugs } from "../helpers/publish/records.ts";
import {
  allows,
  guardedStorage,
  lists,
  type Role,
  roles,
  statementsOf,
  under,
} from "../helpers/store/guarded-store.ts";
import { testKey } from "../helpers/store/signing.ts";
import { listed } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();

/** A key of each kind, and one of an unknown kind under each prefix. */
const keys = Object.values(layout).map((at) => {
  if (typeof at !== "string") return at("x" as never);
  return at.endsWith("/") ? `${at}x` : at;
});
const begins = (key: string, ...prefixes: string[]) => prefixes.some((prefix) => key.startsWith(prefix));

/** What gc reads to find what retained commits reach. */
const readByGc = [
  ...[layout.commits, layout.checked, layout.log, layout.manifests, layout.segments],
  ...[layout.segmentLists, layout.scoreRefs, layout.changes, layout.exportRecords],
  layout.exportedChanges,
];

/** What each role needs of an object, by S3's names of the actions. */
const needs: Record<Role, (key: string) => Record<"GetObject" | "PutObject" | "DeleteObject", boolean>> = {
  publisher: (key) => ({
    GetObject: !begins(key, layout.keys),
    PutObject: !begins(key, layout.keys, layout.collecting),
    DeleteObject: false,
  }),
  gc: (key) => ({
    GetObject: begins(key, ...readByGc),
    PutObject: begins(key, layout.collecting),
    DeleteObject: kindOf(key)?.collected === true || begins(key, layout.collecting, layout.publicTree),
  }),
  proxy: () => ({ GetObject: true, PutObject: false, DeleteObject: false }),
  "key-issuer": (key) => ({
    GetObject: begins(key, layout.keys),
    PutObject: begins(key, layout.keys),
    DeleteObject: false,
  }),
};

describe.each(Object.keys(roles) as Role[])("the role of the %s", (role) => {
  const has = (key: string) => ({
    GetObject: allows(role, "GetObject", key),
    PutObject: allows(role, "PutObject", key),
    DeleteObject: allows(role, "DeleteObject", key),
  });

  test("has the rights that it needs on every kind of object, and no more", () => {
    for (const key of keys) expect(has(key), key).toEqual(needs[role](key));
    const nothing = { GetObject: role === "proxy", PutObject: false, DeleteObject: false };
    for (const key of ["other.json", "keysearch/x", "publicity/x", "commits.json", "index.html"])
      expect(has(key), key).toEqual(nothing);
  });

  test("lists what it works on", () => {
    expect(lists(role, layout.keys)).toBe(true);
    for (const prefix of ["", layout.commits, layout.pages])
      expect(lists(role, prefix)).toBe(role !== "key-issuer");
  });

  test("has only rights to read, write, list and delete, and of other buckets only to read the sources", () => {
    const actions = ["s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:DeleteObject"];
    for (const { Effect, Action, Resource = [], Sid } of roles[role]) {
      expect(Effect).toBe("Allow");
      expect(actions).toEqual(expect.arrayContaining(Action));
      // No wildcard but one at the end of a key.
      const store = Resource.filter((arn) => /^arn:aws:s3:::STORE_BUCKET(\/[^*?]*\*?)?$/.test(arn));
      if (store.length === Resource.length) continue;
      expect([role, Sid, Action, Resource]).toEqual([
        ...["publisher", "ReadSources"],
        ["s3:GetObject", "s3:ListBucket"],
        ["arn:aws:s3:::SOURCES_BUCKET", "arn:aws:s3:::SOURCES_BUCKET/*"],
      ]);
    }
  });
});

describe("the bucket's policy", () => {
  const statements = statementsOf("bucket-policy");
  const except = (...names: string[]) => ({
    ArnNotEquals: { "aws:PrincipalArn": names.map((name) => `arn:aws:iam::ACCOUNT_ID:role/prs-${name}`) },
  });

  test("lets nobody in but the CDN, which reads the public tree", () => {
    const distribution = "arn:aws:cloudfront::ACCOUNT_ID:distribution/DISTRIBUTION_ID";
    expect(statements.filter(({ Effect }) => Effect === "Allow")).toEqual([
      {
        Sid: expect.any(String),
        Effect: "Allow",
        Principal: { Service: "cloudfront.amazonaws.com" },
        Action: ["s3:GetObject"],
        Resource: under(layout.publicTree),
        Condition: { StringEquals: { "aws:SourceArn": [distribution] } },
      },
    ]);
  });

  test("holds against roles that were given every right by mistake", () => {
    const denied = statements.filter(({ Effect }) => Effect === "Deny");
    expect(denied.map(({ Principal }) => Principal)).toEqual(denied.map(() => "*"));
    const deleting = ["s3:DeleteObject", "s3:DeleteObjectVersion"];
    const told = denied.map(({ Sid, Action, Resource, Condition }) => [Sid, Action, Resource, Condition]);
    expect(told).toEqual([
      ["KeysAreForProxyAndKeyIssuer", ["s3:*"], under(layout.keys), except("proxy", "key-issuer")],
      [
        "SnapshotsAreForProxyPublisherAndGc",
        ["s3:GetObject"],
        under("private/", layout.runs, layout.manifests, layout.commits),
        except("proxy", "publisher", "gc"),
      ],
      // A commit that was replaced would rewrite history, and a revocation that was would bring a customer back.
      [
        "CommitsAndKeysAreCreatedNeverReplaced",
        ["s3:PutObject"],
        under(layout.commits, layout.keys),
        { Null: { "s3:if-none-match": ["true"] } },
      ],
      ["OnlyGcDeletes", deleting, under(""), except("gc")],
      ["NobodyDeletesKeys", deleting, under(layout.keys), undefined],
      [
        "OnlyThroughTls",
        ["s3:*"],
        ["arn:aws:s3:::STORE_BUCKET", ...under("")],
        { Bool: { "aws:SecureTransport": ["false"] } },
      ],
    ]);
  });

  test("goes with a bucket that cannot be made public", () => {
    const sides = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];
    expect(JSON.parse(deployed("public-access-block.json"))).toEqual(
      Object.fromEntries(sides.map((side) => [side, true])),
    );
    const control = JSON.parse(deployed("cdn-origin-access-control.json"));
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
      layout.scoreRefs,
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
