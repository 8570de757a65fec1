import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { facetNames } from "../../schemas/filters.ts";
import { combinations } from "../helpers/archive/combinations.ts";
import { segmentEnds } from "../helpers/archive/odd-markets.ts";
import { plainFilter } from "../helpers/archive/plain-filter.ts";
import { type ArchiveProxy, startArchiveProxy } from "../helpers/http/archive-proxy.ts";
import { publishRecords, recordsOf } from "../helpers/publish/records.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { inPython, python } from "./python.ts";

// What client.py evaluates, which shares no code with the service, against the records themselves and against answers
// that somebody altered. ALTERED=10000 alters so many.

const altered = Number(process.env.ALTERED ?? 300);
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Asks each question in one process, first as it is, then with one of its answers altered each time. */
const harness = `
import email.message, io, json, random, sys, urllib.request
from client import ApiError, Client, IntegrityError, Trust, VerificationError
url, key, questions, altered, seed = json.load(sys.stdin)
class Answer(io.BytesIO):
    headers = email.message.Message()
class Opener:
    answers, alter = {}, None
    def open(self, request, timeout):
        url = request.full_url
        if url not in self.answers:
            with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})) as answer:
                self.answers[url] = answer.read()
        self.asked.append(url)
        data = self.answers[url]
        return Answer(self.alter(len(self.asked) - 1, data) if self.alter else data)
opener = Opener()
def says(question, trust=Trust()):
    opener.asked, client = [], Client(url, key, opener=opener)
    if "id" in question:
        found = client.absent(question["id"], trust)
        return {"markets": found.markets}, found.vouched
    found = client.recompute(question["filters"], question["by"], 1000, trust)
    return {"total": found.total, "facets": found.facets}, found.vouched
pairs = [says(question) for question in questions]
right, trust = [said for said, _ in pairs], Trust(entry=pairs[0][1].entry)
requests = []
for question in questions:
    says(question, trust)
    requests.append(opener.asked)
chance, others, wrong, refused = random.Random(seed), list(opener.answers.values()), [], {}
def change(data):
    at, end = sorted(chance.randrange(len(data) + 1) for _ in "ab")
    bit = bytes([data[at % len(data)] ^ 1 << chance.randrange(8)]) if data else b"x"
    other = chance.choice(others)
    return chance.choice([
        data[:at] + bit + data[at + 1:], data[:at], data + bit, data[:at] + data[end:], data[:end] + data[at:],
        other, data[:at] + other[at:end] + data[end:], data[end:] + data[:end], data.replace(b"0", b"1", 1), b""])
for _ in range(altered):
    place = chance.randrange(len(questions))
    request = chance.randrange(len(requests[place]))
    opener.alter = lambda number, data: change(data) if number == request else data
    try:
        found, _ = says(questions[place], trust)
        if found != right[place]:
            wrong.append([questions[place], found])
    except VerificationError as error:
        refused[error.what] = refused.get(error.what, 0) + 1
print(json.dumps({"right": right, "unjudged": [vouched.unjudged for _, vouched in pairs], "wrong": wrong, "refused": refused}))
`;

/** What it prints. */
interface Said {
  right: unknown[];
  unjudged: string[][];
  wrong: unknown[];
  refused: Record<string, number>;
}

describe.skipIf(!python)("the client in Python", () => {
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

  test("gives the totals and facets of the records, and none from an answer that somebody altered", async () => {
    const filters = fc
      .sample(combinations(markets), { seed, numRuns: 150 })
      .map((combination) => combination.filters)
      .filter(({ q }) => q === undefined);
    const by = [...facetNames];
    const questions = filters.map((each, at) => ({ filters: each, by: at % 3 === 0 ? by : [] }));
    const key = proxy.headers.authorization!.replace("Bearer ", "");
    const missing = "0000dead-0000-4000-8000-000000000000";
    const asked = [...questions, { id: missing }];
    const { origin } = new URL(proxy.address);
    const said: Said = await inPython(harness, [origin, key, asked, altered, seed]);
    console.log(`seed ${seed}: ${filters.length} queries; refused ${JSON.stringify(said.refused)}`);
    for (const [at, question] of questions.entries()) {
      const { total, facets } = await proxy.facets({ ...question.filters, by: by.join(), limit: 1000 });
      expect(total).toBe(plainFilter(markets, question.filters).length);
      expect([question, said.right[at]]).toEqual([
        question,
        { total, facets: question.by.length > 0 ? facets : {} },
      ]);
    }
    expect(said.right.at(-1)).toEqual({ markets: markets.length });
    expect(said.wrong).toEqual([]);
    const refused = Object.values(said.refused).reduce((sum, count) => sum + count, 0);
    expect(refused).toBeGreaterThan(altered / 2);
    expect(said.refused).toMatchObject({ entry: expect.any(Number), section: expect.any(Number) });
  });
});
