import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { startTestProxy } from "../../helpers/http/proxy.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { market, marketsOf, publishRecords } from "../../helpers/publish/records.ts";
import { findClients, python } from "../../helpers/servers/clients.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const program = findClients();
const folder = testFolder();
const markets = marketsOf(0, 300);

/** What every script begins with: the client with its profile, and the export as plain files. */
const prelude = `
import io, os, tempfile, urllib.request
import delta_sharing, pandas as pd, pyarrow.parquet as pq
path = os.path.join(tempfile.mkdtemp(), "acme.share")
json.dump({"shareCredentialsVersion": 1, "endpoint": given["base"] + "/delta-sharing/", "bearerToken": given["key"]}, open(path, "w"))
table = path + "#prs.archive.markets"
def get(address):
    request = urllib.request.Request(given["base"] + address, headers={"x-api-key": given["key"]})
    return urllib.request.urlopen(request).read()
def exported(index=0):
    files = json.loads(get("/api/v1/markets/exports"))["exports"][index]["files"]
    frames = [pq.read_table(io.BytesIO(get(file["url"]))).to_pandas() for file in files]
    return pd.concat(frames, ignore_index=True)
def same(one, other):
    pd.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True), check_dtype=False)
`;

describe.skipIf(!program)("the Python client", () => {
  const proxy = serveTestProxy({ empty: true });
  let key: string;
  beforeAll(async () => {
    const files = await mkdtemp(join(folder, "exports-"));
    await publishRecords(proxy.storage, markets.slice(0, 200), 600);
    await exportNewest(proxy.storage, files, { maxTextBytes: 60_000 });
    await publishRecords(proxy.storage, markets, 700);
    await exportNewest(proxy.storage, files, { maxTextBytes: 60_000 });
    proxy.clock.now += 60_000;
    key = await proxy.issue({ quota: 1_000_000 });
  });
  test("loads the newest export and earlier ones in both formats, loses no row to hints, and says why it is refused", async () => {
    const given = { base: `http://127.0.0.1:${proxy.port}`, key };
    const { hinted, refusals, ...found } = await python<{ hinted: number[]; refusals: string[] }>(
      program!,
      given,
      `${prelude}
import polars
from delta_sharing.rest_client import DataSharingRestClient
from delta_sharing.protocol import DeltaSharingProfile, Table
load = delta_sharing.load_as_pandas
plain, first = exported(), exported(1)
same(load(table), plain)
same(load(table, use_delta_format=True), plain)
same(load(table, version=1), first)
same(load(table, version=1, use_delta_format=True), first)
same(load(table, timestamp="2026-03-01T12:00:00Z"), plain)
same(load(table, limit=7), plain.head(7))
assert len(load(table, limit=0)) == 0
moment = plain.resolved_at.sort_values().iloc[-20].strftime("%Y-%m-%dT%H:%M:%SZ")
hint = {"op": "greaterThanOrEqual", "children": [
    {"op": "column", "name": "resolved_at", "valueType": "timestamp"},
    {"op": "literal", "value": moment, "valueType": "timestamp"}]}
some = load(table, jsonPredicateHints=json.dumps(hint))
same(some[some.resolved_at >= moment], plain[plain.resolved_at >= moment])
# Addresses of files, as polars reads them.
client = DataSharingRestClient(DeltaSharingProfile.read_from_file(path))
files = client.list_files_in_table(Table(name="markets", share="prs", schema="archive")).add_files
read = polars.concat([polars.read_parquet(file.url) for file in files])
for column in ["id", "json", "composite", "oracle", "disputed"]:
    assert read[column].to_list() == plain[column].to_list()
def refused(**how):
    try:
        return str(load(**how))
    except Exception as error:
        return str(error)
other = path + "2"
json.dump({**json.load(open(path)), "bearerToken": "prs_live_" + "0" * 38}, open(other, "w"))
answer = {
    "rows": [len(plain), len(read)],
    "tables": [f"{each.share}.{each.schema}.{each.name}" for each in delta_sharing.SharingClient(path).list_all_tables()],
    "versions": [delta_sharing.get_table_version(table), delta_sharing.get_table_version(table, "2020-01-01T00:00:00Z")],
    "hinted": [int((plain.resolved_at >= moment).sum()), len(some), len(load(table, jsonPredicateHints="{"))],
    "refusals": [refused(url=table, version=9), refused(url=path + "#prs.archive.protocols"),
                 refused(url=other + "#prs.archive.markets")],
}
`,
    );
    const rows = [markets.length, markets.length];
    expect(found).toEqual({ rows, tables: ["prs.archive.markets"], versions: [2, 1] });
    const [wanted, some, unread] = hinted;
    expect([wanted, unread]).toEqual([20, markets.length]);
    expect(some).toBeGreaterThanOrEqual(20);
    expect(some).toBeLessThan(markets.length);
    for (const [index, code] of ["VERSION_NOT_FOUND", "SHARE_NOT_FOUND", "INVALID_API_KEY"].entries())
      expect(refusals[index]).toContain(code);
  });
});

describe.skipIf(!program)("changes, as the Python client reads them,", () => {
  test("lead from each version to the next, across a rollback too", async () => {
    await using proxy = await startTestProxy({ empty: true });
    const { storage } = proxy;
    const files = await mkdtemp(join(folder, "changes-"));
    const publish = async (number: number, rows: readonly HistoricalMarket[], exported = true) => {
      const now = () => new Date(Date.UTC(2026, 1, number));
      await publishRecords(storage, rows, 500 + number, { now, resume: true });
      if (exported) await exportNewest(storage, files, { changes: true });
    };
    const all = markets.slice(0, 60);
    const corrected = all.map((row, index) => (index % 20 ? row : { ...row, resolvedOutcome: "Corrected" }));
    await publish(1, all);
    await publish(2, corrected.slice(0, 58));
    // Its changes are exported with the next ones.
    await publish(3, [...corrected, market(90)], false);
    await rollback(storage, "2", () => new Date(Date.UTC(2026, 1, 4)));
    await publish(5, [...all.slice(1), market(91)]);
    proxy.clock.now += 60_000;
    const key = await proxy.issue({ quota: 1_000_000 });
    const given = { base: `http://127.0.0.1:${proxy.port}`, key };
    const answer = await python<{ counts: Record<string, number>[]; missing: string; times: number[] }>(
      program!,
      given,
      `${prelude}
def applied(rows, changes):
    rows = dict(rows)
    for version in sorted(set(changes._commit_version)):
        step = changes[changes._commit_version == version]
        for _, row in step[step._change_type.isin(["delete", "update_preimage"])].iterrows():
            assert rows.pop(row.id) == row.json
        for _, row in step[step._change_type.isin(["insert", "update_postimage"])].iterrows():
            assert row.id not in rows
            rows[row.id] = row.json
    return rows
of = lambda frame: dict(zip(frame.id, frame.json))
newest, second = of(exported(0)), of(delta_sharing.load_as_pandas(table, version=2))
read = delta_sharing.load_table_changes_as_pandas
counts = []
for delta in [False, True]:
    changes = read(table, starting_version=1, use_delta_format=delta)
    assert applied({}, changes) == newest
    assert applied({}, changes[changes._commit_version <= 2]) == second
    counts.append({str(key): int(value) for key, value in changes.groupby(["_commit_version", "_change_type"]).size().items()})
later = read(table, starting_timestamp="2026-02-02T00:00:01Z")
assert applied(second, later) == newest
assert applied(second, read(table, starting_version=3, ending_version=4)) == second
assert sorted(set(later._commit_version)) == [3, 4, 5]
try:
    missing = str(read(table, starting_version=9))
except Exception as error:
    missing = str(error)
answer = {"counts": counts, "missing": missing, "times": sorted(int(time) for time in set(later._commit_timestamp))}
`,
    );
    expect(answer.counts[0]).toEqual({
      "(1, 'insert')": 60,
      "(2, 'delete')": 2,
      "(2, 'update_preimage')": 3,
      "(2, 'update_postimage')": 3,
      "(3, 'insert')": 3,
      "(4, 'delete')": 3,
      "(5, 'delete')": 1,
      "(5, 'insert')": 3,
      "(5, 'update_preimage')": 2,
      "(5, 'update_postimage')": 2,
    });
    expect(answer.counts[1]).toEqual(answer.counts[0]);
    expect(answer.missing).toContain("INVALID_PARAMETER");
    expect(answer.times).toEqual([3, 4, 5].map((day) => Date.UTC(2026, 1, day)));
  });
});
