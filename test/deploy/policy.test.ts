import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { issueKey, keyRing, readKeys, revokeKey } from "../../snapshots/keys/keys.ts";
import { collectGarbage } from "../../snapshots/maintain/gc.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout, privateTree } from "../../snapshots/store/layout.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { deployed } from "../helpers/http/deployed.ts";
import { statementsOf } from "../helpers/publish/policies.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { testKey } from "../helpers/store/signing.ts";
import { aroundCalls } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
type Role = "publisher" | "gc" | "proxy" | "key-issuer";

/** The ARNs of objects of the store: of one key, or of all that begin with a folder. */
const objects = (...keys: string[]) =>
  keys.map((key) => `arn:aws:s3:::STORE_BUCKET/${key}${key === "" || key.endsWith("/") ? "*" : ""}`);
const allowing = (statement: object) => ({ Effect: "Allow", ...statement });

/** Beginnings of the keys of these kinds. */
const prefixes = (...kinds: { prefix: string }[]) => kinds.map(({ prefix }) => prefix);
const { commit, manifest, runPlan, collecting, segmentList, scoreLines, changeRecord, segment } = layout;
/** What a publisher writes. */
const written = [
  ...[...prefixes(commit, manifest, runPlan), layout.publicTree, privateTree],
  ...[layout.checked, layout.probe],
];
/** What finds what retained commits reach. */
const reaching = [
  ...prefixes(commit, manifest, segmentList, scoreLines, changeRecord, segment),
  ...[...prefixes(layout.exportRecord, layout.exportedChanges), layout.checked, layout.log],
];
const collected = [...prefixes(collecting, manifest, runPlan), layout.publicTree, privateTree];

/** Beginnings of the keys that each role may read, write and delete. */
const rights: Record<Role, { get: readonly string[]; put: readonly string[]; delete: readonly string[] }> = {
  publisher: { get: [...written, collecting.prefix], put: written, delete: [] },
  gc: { get: reaching, put: [collecting.prefix], delete: collected },
  proxy: { get: [""], put: [], delete: [] },
  "key-issuer": { get: [layout.key.prefix], put: [layout.key.prefix], delete: [] },
};

describe.each(Object.keys(rights) as Role[])("the role of the %s", (role) => {
  const statements = statementsOf(`role-${role}`);
  const list = {
    Action: ["s3:ListBucket"],
    Resource: ["arn:aws:s3:::STORE_BUCKET"],
    ...(role === "key-issuer" && { Condition: { StringLike: { "s3:prefix": [`${layout.key.prefix}*`] } } }),
  };
  const sources = {
    Action: ["s3:GetObject", "s3:ListBucket"],
    Resource: ["arn:aws:s3:::SOURCES_BUCKET", "arn:aws:s3:::SOURCES_BUCKET/*"],
  };

  test("reads, writes and deletes what it needs, and no more", () => {
    for (const [right, action] of [
      ["get", "s3:GetObject"],
      ["put", "s3:PutObject"],
      ["delete", "s3:DeleteObject"],
    ] as const) {
      const allowed = statements
        .filter(({ Action }) => Action.includes(action))
        .flatMap(({ Resource = [] }) => Resource);
      const needed = objects(...rights[role][right]);
      if (role === "publisher" && right === "get") needed.push(...sources.Resource);
      expect(allowed.toSorted(), action).toEqual(needed.toSorted());
    }
  });

  test("lists the store, and of other buckets reads the sources alone, if any", () => {
    const told = statements.map(({ Sid, ...statement }) => statement);
    const listing = told.filter(({ Action }) => Action.includes("s3:ListBucket"));
    expect(listing).toEqual([...(role === "publisher" ? [sources] : []), list].map(allowing));
    const actions = new Set(["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"]);
    expect(told.flatMap(({ Action }) => Action).filter((action) => !actions.has(action))).toEqual([]);
    expect(
      told.filter(({ Effect, Condition }) => Effect !== "Allow" || (Condition && role !== "key-issuer")),
    ).toEqual([]);
  });
});

describe("the bucket's policy", () => {
  const statements = statementsOf("bucket-policy");
  const except = (...names: string[]) => ({
    ArnNotEquals: { "aws:PrincipalArn": names.map((name) => `arn:aws:iam::ACCOUNT_ID:role/prs-${name}`) },
  });

  test("lets nobody in but the CDN, which reads the public tree", () => {
    const distribution = "arn:aws:cloudfront::ACCOUNT_ID:distribution/DISTRIBUTION_ID";
    const reading = {
      ...{ Principal: { Service: "cloudfront.amazonaws.com" }, Action: ["s3:GetObject"] },
      ...{ Resource: objects(layout.publicTree) },
      Condition: { StringEquals: { "aws:SourceArn": [distribution] } },
    };
    const allowed = statements.filter(({ Effect }) => Effect === "Allow");
    expect(allowed).toEqual([{ Sid: expect.any(String), ...allowing(reading) }]);
  });

  test("holds against roles that were given every right by mistake", () => {
    const denied = statements.filter(({ Effect }) => Effect === "Deny");
    expect(denied.map(({ Principal }) => Principal)).toEqual(denied.map(() => "*"));
    const deleting = ["s3:DeleteObject", "s3:DeleteObjectVersion"];
    const told = denied.map(({ Sid, Action, Resource, Condition }) => [Sid, Action, Resource, Condition]);
    expect(told).toEqual([
      ["KeysAreForProxyAndKeyIssuer", ["s3:*"], objects(layout.key.prefix), except("proxy", "key-issuer")],
      [
        "SnapshotsAreForProxyPublisherAndGc",
        ["s3:GetObject"],
        objects("private/", layout.runPlan.prefix, layout.manifest.prefix, layout.commit.prefix),
        except("proxy", "publisher", "gc"),
      ],
      // A commit that was replaced would rewrite history, and a revocation that was would bring a customer back.
      [
        "CommitsAndKeysAreCreatedNeverReplaced",
        ["s3:PutObject"],
        objects(layout.commit.prefix, layout.key.prefix),
        { Null: { "s3:if-none-match": ["true"] } },
      ],
      ["OnlyGcDeletes", deleting, objects(""), except("gc")],
      ["NobodyDeletesKeys", deleting, objects(layout.key.prefix), undefined],
      [
        "OnlyThroughTls",
        ["s3:*"],
        ["arn:aws:s3:::STORE_BUCKET", ...objects("")],
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

test("what the programs ask of a store is within the rights of their roles", async () => {
  const storage = directoryStorage(join(folder, "store"));
  /** The storage of a program that has a role: no call goes beyond it. */
  const as = (role: Role) => {
    const { get, put, delete: may } = rights[role];
    const allowed = { get, put, putIfAbsent: put, replace: put, delete: may };
    return aroundCalls(storage, (work, { operation, key }) => {
      const prefixes = operation === "list" ? (role === "key-issuer" ? get : [""]) : allowed[operation];
      expect([role, operation, key, prefixes.some((prefix) => key.startsWith(prefix))]).toContain(true);
      // What the bucket's policy lets nobody replace.
      if (operation === "put" || operation === "replace") expect(key).not.toMatch(/^(commits|keys)\//);
      return work();
    });
  };
  await publishArchive(as("publisher"));
  await publishArchive(as("publisher"), { bri: 701 });
  const { record } = await issueKey(as("key-issuer"), { plan: "aegis", owner: "partner" }, new Date());
  await revokeKey(as("key-issuer"), record.id, new Date());
  expect((await readKeys(as("key-issuer"))).records).toEqual([record]);

  const catalog = new Catalog(as("proxy"), { cacheBytes: 1_000_000 });
  await catalog.refresh();
  expect(catalog.current()?.commit.commit).toBe(2);
  const ring = keyRing(as("proxy"), { now: Date.now, damaged: () => expect.unreachable() });
  await ring.reload();
  expect(ring.ready()).toBe(true);
  expect((await verify(as("proxy"), () => {})).faults).toEqual([]);
  expect((await verify(as("publisher"), () => {}, { keys: false })).faults).toEqual([]);

  const stale = layout.stableScore("gone");
  await as("publisher").put(stale, Buffer.from("{}"));
  await rollback(as("publisher"), "1", () => new Date());
  const keep = { keepHours: 0, keepCommits: 1, keepChangesDays: 100_000 };
  const now = new Date(Date.now() + 3_600_000);
  // It may read what it needs to judge the log, and refuses this one, which nobody signed.
  const trusting = { ...keep, signing: { trusted: [testKey()] }, now, dryRun: false };
  await expect(collectGarbage(as("gc"), trusting)).rejects.toThrow("nobody signed it");
  const { deleted } = await collectGarbage(as("gc"), { ...keep, now, dryRun: false });
  expect(deleted.keys).toContain(stale);
  const kinds = new Set(deleted.keys.map((key) => key.slice(0, key.lastIndexOf("/") + 1)));
  const gone = prefixes(manifest, scoreLines, layout.publicObject, layout.privateObject);
  expect(kinds).toEqual(new Set([...gone, `${layout.stableScore.prefix}scores/`]));
  expect((await verify(as("proxy"), () => {})).faults).toEqual([]);
});
