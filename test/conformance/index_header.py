"""The header of a segment's index, as snapshots/SPEC.md says ("Index root")."""
import hashlib, json, struct
LABEL = "codes postings starts rare".split()
def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()
def dumps(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
def leaves(texts):
    return [sha(b"\0", text) for text in texts]
def above(hashes):  # the next level of a tree: nodes over pairs, and a hash without a neighbour as it is
    return [sha(b"\1", *hashes[at:at + 2]) if at + 1 < len(hashes) else hashes[at] for at in range(0, len(hashes), 2)]
def head(hashes):
    while len(hashes) > 1:
        hashes = above(hashes)
    return hashes[0] if hashes else sha()
def root(kind, total, hashes):
    return sha(struct.pack("<BQQ", kind, total, len(hashes)), head(hashes))
def section(name, data):
    size = 256 if name == "ids" else 4096
    return [len(data), root(7, len(data), leaves(data[at:at + size] for at in range(0, len(data), size))).hex()]
def index_header(ref, header, stored, times, words):  # stored: the sections of the segment,
    unicode = json.loads(words[16:16 + struct.unpack_from("<I", words, 8)[0]])["unicode"]
    names = [[one["name"]] if one["kind"] == "integer" else [f"{one['name']}.{part}" for part in LABEL] for one in header["columns"]]
    names = ["pageMarkets", "pageRoots", "times", *sum(names, [])]
    return dumps({"version": 1, "markets": header["markets"], "pages": header["pages"], "root": ref["root"],
                  "epochs": header["epochs"], "oldest": times[0], "newest": times[-1], "columns": header["columns"],
                  "sections": {name: section(name, stored[name]) for name in names}, "words": {"unicode": unicode, **ref["words"]}})
