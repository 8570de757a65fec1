import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { findClients, python } from "../../helpers/servers/clients.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const program = findClients();
const folder = testFolder();
const markets = Array.from({ length: 300 }, (_, index) => market(index));

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
  let proxy: TestProxy;
  let key: string;
  beforeAll(async () => {
    proxy = await startTestProxy({ empty: true });
    const files = await mkdtemp(join(folder, "exports-"));
    await publishRecords(proxy.storage, markets.slice(0, 200), 600);
    await exportNewest(proxy.storage, files, { maxTextBytes: 60_000 });
    await publishRecords(proxy.storage, markets, 700);
    await exportNewest(proxy.storage, files, { maxTextBytes: 60_000 });
    proxy.clock.now += 60_000;
    key = await proxy.issue({ quota: 1_000_000 });
  });
  afterAll(async () => proxy?.stop());

  const ask = <Answer>(code: string) =>
    python<Answer>(program!, { base: `http://127.0.0.1:${proxy.port}`, key }, prelude + code);

  test("loads every row of the newest export, in both formats", async () => {
    const rows = await ask<number[]>(`
plain = exported()
loaded = delta_sharing.load_as_pandas(table)
same(loaded, plain)
kernel = delta_sharing.load_as_pandas(table, use_delta_format=True)
print(kernel.dtypes, plain.dtypes)
same(kernel, plain)
answer = [len(plain), len(loaded), len(kernel)]
`);
    expect(rows).toEqual([markets.length, markets.length, markets.length]);
  });
});
