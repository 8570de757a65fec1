"""The header of a segment's index, as snapshots/SPEC.md says ("Index root")."""
import json, struct
from client import leaf, section_root
LABEL = "codes postings starts rare".split()
def need(holds, message):
    if not holds:
        raise ValueError(message)
def dumps(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
def leaves(texts):
    return [leaf(text) for text in texts]
def section(name, data):
    return [len(data), section_root(data, 256 if name == "ids" else 4096).hex()]
def index_header(ref, header, stored, times, words):  # stored: the sections of the segment,
    unicode = json.loads(words[16:16 + struct.unpack_from("<I", words, 8)[0]])["unicode"]
    names = [
        [one["name"]] if one["kind"] == "integer" else [f"{one['name']}.{part}" for part in LABEL]
        for one in header["columns"]
    ]
    names = ["pageMarkets", "pageRoots", "times", *sum(names, [])]
    return dumps(
        {
            "version": 1,
            "markets": header["markets"],
            "root": ref["root"],
            "epochs": header["epochs"],
            "oldest": times[0],
            "newest": times[-1],
            "columns": header["columns"],
            "sections": {name: section(name, stored[name]) for name in names},
            "words": {"unicode": unicode, **ref["words"]},
        }
    )
