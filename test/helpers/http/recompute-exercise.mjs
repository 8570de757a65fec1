// Evaluates queries by the module that clients load, in whatever runs it: `node recompute-exercise.mjs MODULE FILE`, or a
// page of the service.

/** `index` has the parts of each segment's index in base64, and `queries` what to evaluate. Returns the answers. */
export async function recompute(
  { parseIndexHeader, readFilter, openIndex, evaluate, countFacets },
  { index, queries },
) {
  const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const segments = index.map(({ header, sections, words }, number) => ({
    header: parseIndexHeader(`segment ${number}`, bytesOf(header)),
    section: (name) => bytesOf(sections[name]),
    words: bytesOf(words),
  }));
  const opened = openIndex(segments);
  const atOnce = async () => {};
  const answers = [];
  for (const { search, by } of queries) {
    const filter = readFilter(search);
    const found = await evaluate(opened, filter, atOnce);
    answers.push({ total: found.total, facets: await countFacets(opened, found, by, 1000, atOnce) });
  }
  return answers;
}

const { argv } = globalThis.process ?? { argv: [] };
if (argv[1]?.endsWith("recompute-exercise.mjs")) {
  const { readFileSync } = await import("node:fs");
  const [, , path, file] = argv;
  // Without a file's address, no import of anything beside it would work.
  const module = await import(`data:text/javascript,${encodeURIComponent(readFileSync(path, "utf8"))}`);
  console.log(JSON.stringify(await recompute(module, JSON.parse(readFileSync(file, "utf8")))));
}
