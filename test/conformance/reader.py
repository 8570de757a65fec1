"""Reads every byte of a store without a site, as snapshots/SPEC.md says, with Python's standard library alone.
usage: reader.py STORE KEY|"" [QUERIES.json PROOFS.json]     Answers come from the indexes of the newest snapshot."""
import base64, json, re, struct, sys, zlib
from collections import Counter
from pathlib import Path
from client import INTEGERS, b64, fold, head, is_signed, key_in, milliseconds, root, sha
from index_header import dumps, index_header, leaves, need, section
from words import read_words, with_words
TIERS, RANGES = INTEGERS["tier"][3], {name: ends[:2] for name, ends in INTEGERS.items()}
ENTRY = "commit feedVersion snapshotId archiveRoot scoresRoot indexRoot counts publishedAt withdrawn".split()
LABELS = dict(
    category="category", outcome="resolvedOutcome", formula_version="formulaVersion", weight_version="weightVersion"
)
def in_order(texts):  # by UTF-16 code units
    return sorted(texts, key=lambda text: text.encode("utf-16-be"))
def level(index, total, hashes):  # a level of a proof
    found = {"index": index, "size": len(hashes), "markets": total, "path": []}
    while len(hashes) > 1:
        found["path"] += [one.hex() for one in hashes[index ^ 1:][:1]]
        hashes, index = [head(hashes[at:at + 2]) for at in range(0, len(hashes), 2)], index // 2
    return found
# Whether a note of the key's log says this of this hash, and is signed with the key.
def is_note(note, words, hash_, vkey):
    name, id_, key = key_in(vkey)
    need(re.fullmatch(r"([^\0-\x1f]+\n)+\n(— [^\0-\x1f\s\ufeff+]+ [^\s]{8,}\n){1,64}", note), "a note is malformed")
    signatures = {
        (named, b64(data)[:4]): b64(data)[4:]
        for named, data in re.findall(r"^— (\S+) (\S+)$", note.split("\n\n")[1], re.M)
    }
    need((name, id_) in signatures, "a note is not signed with the key")
    text = f"{name}\n{words}\n{base64.b64encode(hash_).decode()}\n"
    return note.startswith(f"{text}\n— ") and is_signed(text.encode(), key, signatures[name, id_])

class Store:
    def __init__(self, folder):
        self.files = {
            at.relative_to(folder).as_posix(): at.read_bytes() for at in Path(folder).rglob("*") if at.is_file()
        }
        self.seen, self.segments = set(), {}
    def get(self, key, ref=None):
        data = self.files[key]
        is_named = ref is None or (len(data), sha(data).hex()) == (ref.get("bytes", len(data)), ref["hash"])
        need(is_named, f"{key} is not what was named")
        self.seen.add(key)
        return data
    def sealed(self, key):
        record = json.loads(self.get(key))
        content = {name: value for name, value in record.items() if name not in ("digest", "note")}
        note = {"note": record["note"]} if "note" in record else {}
        need(dumps({**content, "digest": sha(dumps(content)).hex(), **note}) == self.files[key], f"{key} is not sealed")
        return record

def value_of(market, name):
    scores = {one["key"]: one["score"] for one in market["dimensions"]}
    return int({**market, "tier": TIERS.index(market["tier"]) + 1, **scores}[name])
def read_runs(stored, at, gap, runs):  # each can be decompressed alone
    for compressed, raw, crc in runs:
        yield stored[at:at + compressed], (text := zlib.decompressobj(-15).decompress(stored[at:at + compressed]))
        need((len(text), zlib.crc32(text)) == (raw, crc), "a run is not what its table says")
        at += compressed + gap
def read_page(store, hash_, size, runs):
    stored, lines = store.get(f"private/pages/{hash_}.json.gz", {"hash": hash_, "bytes": size}), []
    for (run, text), (_, (half,)) in zip(read_runs(stored, 17, 7, (one for one, _ in runs)), runs, strict=True):
        need(sha(run)[:16] == half, f"a hash of a run of page {hash_} is wrong")
        lines += text.split(b",\n")
    need(zlib.decompress(stored, 31) == b"[\n" + b",\n".join(lines) + b"\n]", f"the text of page {hash_} is wrong")
    return lines[::-1]
def read_changes(store, part):  # all of its table follows from its lines
    stored, rows = store.get(f"private/changes/{part['hash']}.ndjson.gz", part), 16 + 40 * part["lines"]
    table, runs = stored[:rows], stored[rows:rows + 12 * -(-part["lines"] // 16)]
    texts = [text for _, text in read_runs(stored, rows + len(runs) + 5, 5, struct.iter_unpack("<III", runs))]
    markets = [line[21:-1] for text in texts for line in text.split(b"\n")[:-1]]
    puts = [b'{"op":"put","market":' + market + b"}\n" for market in markets]
    need([b"".join(puts[at : at + 16]) for at in range(0, len(puts), 16)] == texts, "a run of changes is wrong")
    need(zlib.decompress(stored, 31) == b"".join(puts), "the lines of changes are wrong")
    ids = [bytes.fromhex(one[7:43].decode().replace("-", "")) for one in markets]
    times = [struct.pack("<Q", milliseconds(json.loads(one)["resolvedAt"])) for one in markets]
    expected = [id_ + leaf[:16] + time for id_, leaf, time in zip(ids, leaves(markets), times)]
    need(table[16:] == b"".join(expected), "a table of changes is wrong")
def slices(data, size, low, high):
    bytes_ = (size + 31) // 32 * 4
    bits = [int.from_bytes(data[at:at + bytes_], "little") for at in range(0, len(data), bytes_)]
    need(len(bits) == (high - low).bit_length(), "a column has not as many slices as its values need")
    return [low + sum((one >> n & 1) << s for s, one in enumerate(bits)) for n in range(size)]
def column(name, stored, header):
    if name in RANGES:
        return slices(stored[name], header["markets"], *RANGES[name])
    frequent, rare, rank = header["columns"][name]["frequent"], json.loads(stored[f"{name}.rare"]), -1
    codes = slices(stored[f"{name}.codes"], header["markets"], 0 if rare else 1, len(frequent))
    values, starts = [frequent[code - 1] for code in codes], int.from_bytes(stored[f"{name}.starts"], "little")
    for at, (ordinal,) in enumerate(struct.iter_unpack("<H", stored[f"{name}.postings"])):
        rank += starts >> at & 1
        need(codes[ordinal] == 0, "a frequent label has a posting")
        values[ordinal] = rare[rank]
    return values

def read_segment(store, ref):
    data = store.get(f"private/segments/{ref['hash']}", ref)
    magic, length, zero = struct.unpack_from("<8sII", data)
    header, start = json.loads(data[16:16 + length]), (16 + length + 7) // 8 * 8
    need((magic, zero, header["formatVersion"]) == (b"PRSSEG\r\n", 0, 4), "it is no segment of format 4")
    stored = {name: data[start + at:start + at + size] for name, (at, size) in header["sections"].items()}
    header = json.loads(stored["index"])
    rows = lambda form, name: struct.iter_unpack(form, stored[name])
    runs = zip(rows("<III", "runs"), rows("16s", "runHashes"), strict=True)
    table = zip(rows("<32s", "pageHashes"), rows("<I", "pageBytes"), rows("<H", "pageMarkets"))
    pages = [
        read_page(store, hash_.hex(), size, [next(runs) for _ in range((n + 15) // 16)])
        for (hash_,), (size,), (n,) in table
    ]
    lines = [line for page in pages for line in page]
    markets = [json.loads(line) for line in lines]
    ids = [line[7:43].decode() for line in lines]
    epochs = {n: high for first, high in header["epochs"] for n in range(first, len(lines))}
    times = [epochs[n] << 32 | low for n, (low,) in enumerate(struct.iter_unpack("<I", stored["times"]))]
    told = {**header, "columns": {one["name"]: one for one in header["columns"]}}
    integers = [one for one in header["columns"] if one["kind"] == "integer"]
    need(all((one["min"], one["max"]) == RANGES[one["name"]] for one in integers), "a range is another")
    columns = {name: column(name, stored, told) for name in (*RANGES, *LABELS)}
    for name, values in columns.items():
        expected = [market[LABELS[name]] if name in LABELS else value_of(market, name) for market in markets]
        if name in LABELS:
            often = {text for text, times_ in Counter(expected).items() if times_ * 32 >= len(lines)}
            need(told["columns"][name]["frequent"] == in_order(often), f"{name} has other frequent labels")
            need(json.loads(stored[f"{name}.rare"]) == in_order({*expected} - often), f"{name} has other rare labels")
        need(values == expected, f"the index of {name} is wrong")
    need(times == [milliseconds(market["resolvedAt"]) for market in markets], "the index of times is wrong")
    need([*zip(times, ids)] == sorted({*zip(times, ids)}), "the markets are not in order")
    entries = sorted((int(sha(id_.encode())[:4].hex(), 16), n) for n, id_ in enumerate(ids))
    beside = [store.get(f"private/{kind}/{ref[kind]['hash']}", ref[kind]) for kind in ("ids", "rows", "words")]
    packed = struct.pack(f"<{len(ids)}I{len(ids)}H", *(hash_ for hash_, _ in entries), *(n for _, n in entries))
    need((beside[0], len(beside[1])) == (packed, 8 * len(ids)), "the ids or rows are wrong")
    for page in pages:
        ends = [n for n, line in enumerate(page, 1) if n == 512 or n >= 32 and zlib.crc32(line[7:43]) % 96 == 0]
        need(ends == [len(page)] or page is pages[-1] and ends == [], "a page ends elsewhere")
    roots = [root(2, len(page), leaves(page)) for page in pages]
    own = root(3, len(lines), roots)
    sizes = ref["root"], ref["markets"], stored["pageRoots"], header["markets"], stored["pageEncodings"]
    need(sizes == (own.hex(), len(lines), b"".join(roots), len(lines), bytes(len(pages))), "a size or root is wrong")
    text = index_header(ref, header, stored, times, beside[2])
    told = stored["index"], ref["index"], ref["ids"]["root"]
    named = {"hash": sha(text).hex(), "bytes": len(text)}
    need(told == (text, named, section("ids", beside[0])[1]), "the header of an index is wrong")
    words = read_words(beside[2], [market["question"] for market in markets])
    return dict(
        words=words, root=own, roots=roots, pages=pages, ids=ids, columns=columns, times=times, newest=markets[-1]
    )

def read_snapshot(store, commit):
    entry, ref = commit["entry"], commit["manifest"]
    manifest = json.loads(store.get(f"manifests/{ref['hash']}.json", ref))
    listed = lambda folder, one: json.loads(store.get(f"private/{folder}/{one['hash']}.json", one))
    refs, rows, sources, named = [], Counter(), manifest["sources"], manifest["parts"]["scores"]
    for one in manifest["parts"]["lists"]:
        refs += (own := listed("lists", one)["segments"])
        ends = [n for n, ref in enumerate(own, 1) if n == 128 or int(ref["root"][:2], 16) % 32 == 0]
        is_last = one is manifest["parts"]["lists"][-1]
        need(ends == [len(own)] or is_last and ends == [], "a list of segments ends elsewhere")
    for one in refs:
        store.segments[one["hash"]] = store.segments.get(one["hash"]) or read_segment(store, one)
    segments = [store.segments[one["hash"]] for one in refs]
    origins = [store.get(f"private/origins/{one['origins']['hash']}", one["origins"]) for one in refs]
    for data, segment in zip(origins, segments, strict=True):
        files = [data[at:at + 32].hex() for at in range(4, 4 + 32 * data[0], 32)]
        rows.update(files[n] for n in slices(data[4 + 32 * len(files):], len(segment["ids"]), 0, len(files) - 1))
    files = listed("sources", sources)["files"]
    need([(one["hash"], one["rows"]) for one in files] == sorted(rows.items()), "the origins are wrong")
    *lines, end = store.get(f"private/scores/{named['hash']}", named).decode().split("\n")
    scores = {tuple(line.split(" ")[:-1]): {"hash": line.split(" ")[-1]} for line in lines}
    slugs = in_order({slug for _, *one in scores for slug in one})
    own = [(kind, slug) for kind in ("score", "history", "dimensions") for slug in slugs]
    need((end, [*scores]) == ("", [("scores",), *own]), "the lines are in another order")
    for (kind, *slug), one in scores.items():
        tree = "public" if kind.startswith("score") else "private"
        score = json.loads(store.get(f"{tree}/objects/{one['hash']}.json", one))
        need(score.get("slug") == (slug or [None])[0], "a score is another's")
    total, protocols, hashes = sum(len(one["ids"]) for one in segments), len(slugs), leaves(map(str.encode, lines))
    archive, own = root(4, total, [one["root"] for one in segments]).hex(), root(5, len(lines), hashes).hex()
    told = f"markets {total}\nprotocols {protocols}\narchive {archive}\nscores {own}\n"
    identity = f"prs-snapshot 1 {entry['feedVersion']}\n{told}"
    nodes = [sha(b"\1", *map(bytes.fromhex, (one["index"]["hash"], one["ids"]["root"]))) for one in refs]
    roots = dict(archiveRoot=archive, indexRoot=root(6, total, nodes).hex(), scoresRoot=own)
    snapshot = dict(snapshotId=sha(identity.encode()).hex(), counts=dict(markets=total, protocols=protocols))
    need({**entry, **roots, **snapshot} == entry and list(entry) == ENTRY, "an entry is wrong")
    need(manifest["newestResolvedAt"] == segments[-1]["newest"]["resolvedAt"], "a manifest is wrong")
    return {**manifest, "scores": scores}, segments

def read_log(store, commits, vkey):  # every tile is what the commits give, and none of the newest is missing
    entries = [dumps({**one["entry"], "record": one["digest"]}) for one in commits]
    rows = {"entries": [struct.pack(">H", len(entry)) + entry for entry in entries], 0: leaves(entries)}
    while len(row := rows[len(rows) - 2]) >= 256:
        rows[len(rows) - 1] = [head(row[at:at + 256]) for at in range(0, len(row) - 255, 256)]
    for name, row in rows.items():
        for end in range(1, len(row) + 1):
            index, width = divmod(end - 1, 256)
            digits = f"{index:0{-(-len(str(index)) // 3) * 3}}"
            part = f".p/{width + 1}" if width < 255 else ""
            key = f"public/log/tile/{name}/" + re.sub(r"(...)(?=.)", r"x\1/", digits) + part
            if key in store.files or end == len(row) or width == 255:
                need(store.get(key) == b"".join(row[index * 256:end]), f"{key} is of another log")
    for n, one in enumerate(commits):
        need(one["tree"] == head(rows[0][:n]).hex(), "a commit names another tree")
        need(not vkey or is_note(one["note"], f"entry {n + 1}", rows[0][n], vkey), "a note is about another entry")
    for key in [key for key in store.files if key.startswith("public/log/checkpoint")]:
        size = int((note := store.get(key).decode()).split("\n")[1])
        is_named = key.endswith(("checkpoint", f"/{size}"))
        need(is_note(note, size, head(rows[0][:size]), vkey) and is_named, f"{key} is another's")
    return entries
def read_store(folder, vkey):
    store, before, commits = Store(folder), None, []
    for number, key in enumerate(sorted(key for key in store.files if key.startswith("commits/")), 1):
        commit = store.sealed(key)
        commits.append(commit)
        told = key, commit["entry"]["commit"], commit["previous"]
        need(told == (f"commits/{number:010}.json", number, before), "the log is broken")
        before, (manifest, segments) = commit["digest"], read_snapshot(store, commit)
        record = commit["changes"] and json.loads(
            store.get(f"private/changes/{commit['changes']['hash']}.json", commit["changes"])
        )
        for part in record and record["before"] + record["after"] or []:
            read_changes(store, part)
    for slug, one in [(slug, one) for (kind, *slug), one in manifest["scores"].items() if kind.startswith("score")]:
        store.get(f"public/api/v1/{'/'.join(('scores', *slug))}.json", one)
    entries = read_log(store, commits, vkey)
    run = store.sealed("checked.json")
    is_ours = not vkey or is_note(run["note"], f"checked {run['checkedAt']}", bytes.fromhex(run["digest"]), vkey)
    need(is_ours, "the signature of checked.json is another's")
    for key in [key for key in store.files if key.startswith("keys/")]:
        need(store.sealed(key).get("id", "") in key, f"{key} is another's")
    probe = b'{"purpose":"shows that this store honours conditional writes"}'
    need(store.get("probe.json") == probe, "probe.json is wrong")
    need(store.seen == set(store.files), f"nothing names {store.files.keys() - store.seen}")
    return commit["entry"], segments, entries, store.get("public/log/checkpoint").decode()
def holds(segment, name, value):
    if name == "from":
        return [time >= milliseconds(value) for time in segment["times"]]
    if name == "to":
        return [time <= milliseconds(value, end=True) for time in segment["times"]]
    if name[:4] in ("min_", "max_"):
        return [one >= int(value) if name[:4] == "min_" else one <= int(value) for one in segment["columns"][name[4:]]]
    if name == "q":
        return with_words(segment["words"], len(segment["ids"]), value)
    if name in RANGES:
        text = (lambda one: TIERS[one - 1]) if name == "tier" else ("false", "true").__getitem__
        return [text(one) in value.split(",") for one in segment["columns"][name]]
    return [fold(one) == fold(value) if name == "category" else one == value for one in segment["columns"][name]]
def answer(segments, query):
    for segment in reversed(segments):
        kept = zip(segment["ids"], *(holds(segment, name, value) for name, value in query.items()))
        yield from (id_ for id_, *each in reversed([*kept]) if all(each))
def proof(entry, segments, entries, checkpoint, id_):
    index, segment = next((n, one) for n, one in enumerate(segments) if id_ in one["ids"])
    ordinal = place = segment["ids"].index(id_)
    number = next(n for n, page in enumerate(segment["pages"]) if (place := place - len(page)) < 0)
    page = segment["pages"][number]
    beside = level(entry["commit"] - 1, 0, leaves(entries))["path"]
    return {"market": page[place].decode(), "snapshotId": entry["snapshotId"], "commit": entry["commit"],
            "entry": entries[-1].decode(), "checkpoint": checkpoint, "proof": {
        "page": level(place + len(page), len(page), leaves(page)),
        "segment": level(number, len(segment["ids"]), segment["roots"]),
        "archive": level(index, entry["counts"]["markets"], [one["root"] for one in segments]),
        "inclusion": beside}}

if __name__ == "__main__":
    newest = entry, segments, *_ = read_store(*sys.argv[1:3])
    queries, proofs = [json.loads(Path(file).read_text("utf-8")) for file in sys.argv[3:]] or ([], [])
    for one in queries:
        found = list(answer(segments, one["query"]))
        need((found, len(found)) == (one["ids"], one["total"]), f"{one['query']} has other matches")
    for one in proofs:
        need(proof(*newest, json.loads(one["market"])["id"]) == one, "a proof is wrong")
    print(f"snapshot {entry['snapshotId']}: {len(queries)} queries and {len(proofs)} proofs agree")
