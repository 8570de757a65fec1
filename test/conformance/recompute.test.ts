import { execFile } from "node:child_process";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { combinations } from "../helpers/archive/combinations.ts";
import { segmentEnds } from "../helpers/archive/odd-markets.ts";
import { plainFilter } from "../helpers/archive/plain-filter.ts";
import { type ArchiveProxy, search, startArchiveProxy } from "../helpers/http/archive-proxy.ts";
import { blocksIn, guide } from "../helpers/publish/guides.ts";
import { publishRecords, recordsOf } from "../helpers/publish/records.ts";
import { findProgram } from "../helpers/servers/programs.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

// The script of proxy/README.md, which has nothing of ours in it, against the records themselves and against answers
// that somebody altered. ALTERED=10000 alters so many.

const python = findProgram("python3");
const script = blocksIn(guide("proxy/README.md")).find(({ text }) => text.startsWith("import bisect"))!.text;
const altered = Number(process.env.ALTERED ?? 300);
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Runs the script for each query in one process, first as it is, then with one of its answers altered each time. */
const harness = `
import contextlib, io, json, os, random, sys, urllib.request
script, queries, altered, seed = json.load(sys.stdin)
code, really, answers, alter = compile(script, "recompute.py", "exec"), urllib.request.urlopen, {}, None
def answering(request):
    url = request.full_url
    if url not in answers:
        with really(request) as answer:
            answers[url] = answer.read()
    asked.append(url)
    return contextlib.closing(io.BytesIO(alter(len(asked) - 1, answers[url]) if alter else answers[url]))
urllib.request.urlopen = answering
def says(query):
    global asked
    asked, sys.argv, out = [], ["", query], io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(code, {})
    except (Exception, SystemExit) as error:
        return {"refused": repr(error)}
    return json.loads(out.getvalue())
right = [says(query) for query in queries]
os.environ["ENTRY"] = right[0]["entry"]
requests = []
for query in queries:
    says(query)
    requests.append(asked)
chance, others, wrong, refused = random.Random(seed), list(answers.values()), [], 0
def change(data):
    at, end = sorted(chance.randrange(len(data) + 1) for _ in "ab")
    bit = bytes([data[at % len(data)] ^ 1 << chance.randrange(8)]) if data else b"x"
    other = chance.choice(others)
    return chance.choice([
        data[:at] + bit + data[at + 1:], data[:at], data + bit, data[:at] + data[end:], data[:end] + data[at:],
        other, data[:at] + other[at:end] + data[end:], data[end:] + data[:end], data.replace(b"0", b"1", 1), b""])
for _ in range(altered):
    place = chance.randrange(len(queries))
    request = chance.randrange(len(requests[place]))
    alter = lambda number, data: change(data) if number == request else data
    found = says(queries[place])
    if "refused" in found:
        refused += 1
    elif found != right[place]:
        wrong.append([queries[place], found])
print(json.dumps({"right": right, "wrong": wrong, "refused": refused}))
`;

interface Said {
  right: { total: number; snapshotId: string; entry: string }[];
  wrong: unknown[];
  refused: number;
}

function pythonSays(address: string, key: string, queries: readonly string[]): Promise<Said> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, BASE: address, KEY: key, ENTRY: undefined };
    const options = { env: JSON.parse(JSON.stringify(env)), maxBuffer: 2 ** 26 };
    const child = execFile(python!, ["-c", harness], options, (error, said) =>
      error ? reject(error) : resolve(JSON.parse(said)),
    );
    child.stdin!.end(JSON.stringify([script, queries, altered, seed]));
  });
}

describe.skipIf(!python)("the script that recomputes a total", () => {
  const [segmentEnd] = segmentEnds().take(1);
  const markets = recordsOf(0, 150).map((market, index) =>
    index === 70 ? { ...market, id: segmentEnd! } : market,
  );
  let proxy: ArchiveProxy;
  beforeAll(async () => {
    const storage = memoryStorage(new Map());
    await publishRecords(storage, markets);
    proxy = await startArchiveProxy(storage);
  });
  afterAll(() => proxy?.stop());

  test("gives the totals of the records, and none from an answer that somebody altered", async () => {
    const filters = fc
      .sample(combinations(markets), { seed, numRuns: 150 })
      .map((combination) => combination.filters)
      .filter(({ q, tier = "" }) => q === undefined && !String(tier).includes(","))
      .filter((query) => Object.keys(query).length > 0);
    const key = proxy.headers.authorization!.replace("Bearer ", "");
    const said = await pythonSays(new URL(proxy.address).origin, key, filters.map(search));
    console.log(
      `seed ${seed}: ${filters.length} queries; of ${altered} altered answers ${said.refused} refused`,
    );
    expect(said.right.map(({ total }) => total)).toEqual(
      filters.map((query) => plainFilter(markets, query).length),
    );
    expect(said.wrong).toEqual([]);
    expect(said.refused).toBeGreaterThan(altered / 2);
    expect(script.trimEnd().split("\n").length).toBeLessThanOrEqual(100);
  });
});
