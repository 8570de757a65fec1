"""The client of the Protocol Risk Score Service: one file that needs Python 3.9 or later, and nothing else.

    client = Client("https://HOST", key="prs_live_…")
    print(client.recompute({"disputed": True}, by=["tier"], trust=Trust(key="NAME+ID+BASE64")).total)

Names are those of the JavaScript client in snake_case, filters and answers the service's. Each request is sent once.
"""
from __future__ import annotations
import base64, bisect, contextlib, datetime, gzip, hashlib, http.client, itertools, json, os, pathlib, re, socket
import struct, unicodedata, urllib.error, urllib.parse, urllib.request, zlib
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence, Union
Json = dict[str, Any]
Keys = Union[str, Sequence[str]]  # public keys of logs, each NAME+ID+BASE64
UNICODE = ".".join(unicodedata.unidata_version.split(".")[:2])  # of this Python, as headers of an index name it
class ApiError(Exception):
    """A request that failed. `code` is the service's (QUOTA_EXCEEDED, CURSOR_EXPIRED, …) or one of the client's own:
    UNREACHABLE, TIMEOUT, BROKEN_ANSWER (it broke off or cannot be read), UNEXPECTED_ANSWER (an error that the service
    did not write, such as a gateway's), MISMATCH, INVALID_URL. `status` is 0 when no answer came. `title`, `parameter`,
    `request_id`, `resume_cursor`, `nearest` and `retry_after`, in seconds, are None where the service does not say."""
    def __init__(self, code: str, detail: str, status: int = 0, said: Mapping[str, Any] = {}):
        super().__init__(detail)
        self.code, self.status, self.title, self.parameter = code, status, said.get("title"), said.get("parameter")
        self.request_id, self.resume_cursor = said.get("requestId"), said.get("resumeCursor")
        self.nearest, self.retry_after = said.get("nearest"), said.get("retryAfter")
class IntegrityError(ApiError):
    """An answer that contradicts itself, an earlier answer or its proof. Asking again does not help."""
class VerificationError(IntegrityError):
    """What is served does not follow from what you trust: at least one byte of it is wrong. `what` names the part:
    checkpoint, entry, inclusion (that the log has the entry), index root, archive root, header (of a segment's index),
    section, proof (of a market or a score), absence or answer. The message says which one."""
    def __init__(self, what: str, detail: str):
        super().__init__("MISMATCH", detail)
        self.what = what
def need(holds: object, what: str, detail: str) -> None:
    if not holds:
        raise VerificationError(what, detail)
TRANSPORT = (OSError, EOFError, http.client.HTTPException, zlib.error)
@contextlib.contextmanager
def checking(what: str, name: str) -> Iterator[None]:
    """While something of the service is read, a failure that is not the connection's shows that it is malformed."""
    try:
        yield
    except (ApiError, *TRANSPORT):
        raise
    except Exception as error:
        raise VerificationError(what, f"{name} is malformed: {error!r}") from error
def must(holds: object) -> None:
    if not holds:
        raise ValueError("it is not as snapshots/SPEC.md says")
def invalid(name: str, detail: str) -> ApiError: return ApiError("INVALID_PARAMETER", detail, said={"parameter": name})
def is_hash(text: object) -> bool: return isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) is not None
def is_count(number: object, most: int = 2**53 - 1) -> bool: return type(number) is int and 0 <= number <= most

# Trees (snapshots/SPEC.md, "Roots" and "Proofs"). The kind of a tree is the first byte of its root.
PAGE, SEGMENT, ARCHIVE, SCORES, INDEX, SECTION = range(2, 8)
def sha(*parts: bytes) -> bytes: return hashlib.sha256(b"".join(parts)).digest()
def leaf(text: bytes) -> bytes: return sha(b"\0", text)
def head(hashes: Sequence[bytes]) -> bytes:
    if len(hashes) < 2:
        return hashes[0] if hashes else sha()
    split = 1 << (len(hashes) - 1).bit_length() - 1  # how many of the hashes are in the left subtree
    return sha(b"\1", head(hashes[:split]), head(hashes[split:]))
def sealed(kind: int, total: int, size: int, top: bytes) -> bytes:
    return sha(struct.pack("<BQQ", kind, total, size), top)
def root(kind: int, total: int, all: Sequence[bytes]) -> bytes: return sealed(kind, total, len(all), head(all))
def section_root(data: bytes, chunk: int = 4096) -> bytes:
    return root(SECTION, len(data), [leaf(data[at:at + chunk]) for at in range(0, len(data), chunk)])
def climb(node: bytes, index: int, size: int, path: Sequence[str]) -> bytes:
    """The head of the tree of `size` hashes to which a path leads from the one at `index`."""
    must(is_count(size) and is_count(index, size - 1) and isinstance(path, list) and all(map(is_hash, path)))
    others = [*map(bytes.fromhex, path)]
    while size > 1:
        if index ^ 1 < size:  # The last of an odd number has no other beside it, and is in the level above as it is.
            node = sha(b"\1", others.pop(0), node) if index & 1 else sha(b"\1", node, others.pop(0))
        index, size = index // 2, (size + 1) // 2
    must(not others)
    return node
def root_from(kind: int, node: bytes, place: Json, markets: int) -> bytes:
    must(is_count(markets))
    return sealed(kind, markets, place["size"], climb(node, place["index"], place["size"], place["path"]))
def archive_from(market: str, proof: Json) -> tuple[str, int]:
    """The root of the archive to which a market's text belongs, and how many markets that has."""
    node = leaf(market.encode())
    for kind, name in ((PAGE, "page"), (SEGMENT, "segment"), (ARCHIVE, "archive")):
        node = root_from(kind, node, proof[name], proof[name]["markets"])
    return node.hex(), proof["archive"]["markets"]

# Ed25519 (RFC 8032, 5.1), on points (x, y).
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]
def add(a: Point, b: Point) -> Point:
    (x, y), (u, v) = a, b
    t = D * x * y * u * v
    return (x * v + y * u) * pow(1 + t, -1, P) % P, (y * v + x * u) * pow(1 - t, -1, P) % P
def times(number: int, point: Point) -> Point:
    if not number:
        return 0, 1
    rest = times(number >> 1, add(point, point))
    return add(rest, point) if number & 1 else rest
def point_of(encoded: bytes) -> Point:
    sign, y = divmod(int.from_bytes(encoded, "little"), 2**255)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    must(y < P and (x * x - square) % P == 0 and (x or not sign))
    return (x if x & 1 == sign else P - x), y
def is_signed(message: bytes, key: bytes, signature: bytes) -> bool:
    base, s = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little")), int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    return len(signature) == 64 and s < ORDER and (
        times(s, base) == add(point_of(signature[:32]), times(k, point_of(key))))

# Checkpoints (c2sp.org/signed-note, c2sp.org/tlog-checkpoint) and the entries that they lead to.
Checkpoint = NamedTuple("Checkpoint", [("origin", str), ("size", int), ("root", str), ("signed", bool), ("text", str)])
def b64(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    must(base64.b64encode(data).decode() == text)
    return data
def key_in(text: str) -> tuple[str, bytes, bytes]:
    """Name, id and the 32 bytes of a public key."""
    try:
        name, id_, encoded = text.split("+", 2)
        data = b64(encoded)
        own = sha(f"{name}\n".encode(), data)[:4]
        must(name.isprintable() and data[0] == 1 and len(data) == 33 and own.hex() == id_)
        return name, own, data[1:]
    except (ValueError, IndexError):
        raise invalid("key", "This is no Ed25519 key as it was given out, NAME+ID+BASE64; copy it again.") from None
def checkpoint_in(checkpoint: str | None) -> Checkpoint:
    """What a checkpoint says, whoever signed it. Raises VerificationError."""
    need(isinstance(checkpoint, str), "checkpoint", "There is no checkpoint: nobody signed the log.")
    with checking("checkpoint", "The checkpoint"):
        form = r"([^\0-\x1f\x7f-\x9f]+)\n([1-9][0-9]{0,9})\n([^\n]{44})\n\n((— [^\0-\x1f\s\ufeff+]+ [^\s]{8,}\n){1,64})"
        origin, size, top, lines, _ = re.fullmatch(form, str(checkpoint)).groups()  # type: ignore[union-attr]
        must(int(size) < 2**31 and all(len(b64(line.split(" ")[2])) > 4 for line in lines.split("\n")[:-1]))
        return Checkpoint(origin, int(size), b64(top).hex(), False, str(checkpoint))
def verify_checkpoint(checkpoint: str | None, keys: Keys) -> Checkpoint:
    """What a checkpoint says that one of these keys signed. Raises VerificationError; ApiError if a key is not one."""
    said = checkpoint_in(checkpoint)
    with checking("checkpoint", "The signature of the checkpoint"):
        origin, text, lines = said.origin, *said.text.split("\n\n")
        signatures = [b64(line.split(" ")[2]) for line in lines.split("\n") if line.startswith(f"— {origin} ")]
        known = [key_in(one) for one in ([keys] if isinstance(keys, str) else keys)]
        own = [(key, data[4:]) for name, id_, key in known for data in signatures if (name, id_) == (origin, data[:4])]
        need(own, "checkpoint", "None of the keys signed the checkpoint.")
        need(is_signed(f"{text}\n".encode(), *own[0]), "checkpoint", "The signature of the checkpoint is wrong.")
    return said._replace(signed=True)
class Trust(NamedTuple):
    """What you trust: the publisher's `key`; `entry`, the SHA-256 of the text of the log's entry, in hexadecimal; or a
    `snapshot_id`, which does not cover the index. Without these an answer is only shown to agree with itself."""
    key: Keys | None = None
    entry: str | None = None
    snapshot_id: str | None = None
# What an answer was checked against: `by` names what of it is yours. `entry` can be pinned; `leaf` is its hash in the
# log's tree. `complete` says whether no market is left out, `unjudged` what this Python cannot judge, in sentences.
Vouched = NamedTuple("Vouched", [("by", list[str]), ("entry", str), ("leaf", str), ("published_at", str),
                                 ("checkpoint", "Checkpoint | None"), ("complete", bool), ("unjudged", list[str])])
def verify_entry(answer: Json, trust: Trust = Trust(), as_of: str | None = None) -> tuple[Json, Vouched]:
    """Checks that the log has an answer's entry, which is of the snapshot that you name, or else the log's last one."""
    with checking("entry", "The log's entry"):
        text, commit, checkpoint = answer["entry"].encode(), answer["commit"], answer["checkpoint"]
        entry, pinned = json.loads(text), sha(text).hex()
        counts, roots = entry["counts"], (entry["archiveRoot"], entry["scoresRoot"])
        must(all(map(is_hash, roots)) and all(map(is_count, (commit, counts["markets"], counts["protocols"]))))
        must(re.fullmatch("[!-~]+", entry["feedVersion"]))
        must(re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}\.[0-9]{3}Z", entry["publishedAt"]))
        identity = (f"prs-snapshot 1 {entry['feedVersion']}\nmarkets {counts['markets']}\n"
                    f"protocols {counts['protocols']}\narchive {roots[0]}\nscores {roots[1]}\n")
        own, found = sha(identity.encode()).hex(), (entry["snapshotId"], entry["commit"])
        need(found == (answer["snapshotId"], commit) == (own, commit), "entry", "The entry is of another snapshot.")
        need(trust.entry in (None, pinned) and trust.snapshot_id in (None, own), "entry",
             f"The log's entry is not the one that is trusted: {pinned} of snapshot {own}.")
        meant = own == as_of if is_hash(as_of) else as_of is None or (
            milliseconds(entry["publishedAt"]) <= milliseconds(as_of, "asOf", end=True))
        need(meant, "entry", f"The entry is of snapshot {own}, published {entry['publishedAt']}, not of {as_of}.")
    log = None if trust.key is None and checkpoint is None else (
        checkpoint_in(checkpoint) if trust.key is None else verify_checkpoint(checkpoint, trust.key))
    with checking("inclusion", "The entry's place in the log"):
        top = log and climb(leaf(text), commit - 1, log.size, answer.get("proof", answer)["inclusion"]).hex()
        need(not log or top == log.root, "inclusion", "The log does not have this entry.")
    named = (as_of, trust.entry, trust.snapshot_id) != (None, None, None)
    need(named or not log or commit == log.size, "entry", f"The log goes on after commit {commit}. Say which is meant.")
    by = [name for name, value in trust._asdict().items() if value is not None]
    return entry, Vouched(by, pinned, leaf(text).hex(), entry["publishedAt"], log, bool({"key", "entry"} & {*by}), [])
def verify_proof(answer: Json, asked: str | None = None, trust: Trust = Trust(), as_of: str | None = None) -> Json:
    """Checks that a market or score, whose id or slug you `asked` for, is in its snapshot, and this in the log."""
    entry, _ = verify_entry(answer, trust, as_of)
    with checking("proof", "The proof"):
        kind, member = ("market", "id") if "market" in answer else ("score", "slug")
        text, proof, record = answer[kind], answer["proof"], json.loads(answer[kind])
        if kind == "market":
            own = archive_from(text, proof) == (entry["archiveRoot"], entry["counts"]["markets"])
        else:
            line = leaf(f"score {record['slug']} {sha(text.encode()).hex()}".encode())
            own = root_from(SCORES, line, proof["score"], proof["score"]["size"]).hex() == entry["scoresRoot"]
        need(own, "proof", f"The {kind} does not belong to the snapshot.")
        need(asked in (None, record[member]), "proof", f"The proof is about another {kind}.")
    return record
verify_score_proof = verify_proof

# Copies (snapshots/PUBLISHING.md, "Cuts").
CopyRoot = NamedTuple("CopyRoot", [("archive_root", str), ("markets", int)])
def archive_root(lines: Iterable[Union[str, bytes]]) -> CopyRoot:
    """The archive's root over the lines of a copy, oldest first: in the reverse of the archive's order."""
    levels: list[list[tuple[bytes, int]]] = [[], [], [], []]  # children of a page, a segment and the archive; the root
    def close(level: int) -> None:
        total = sum(markets for _, markets in levels[level])
        levels[level + 1].append((root(PAGE + level, total, [one for one, _ in levels[level]]), total))
        levels[level] = []
    for line in lines:
        text = line.encode() if isinstance(line, str) else line
        levels[0].append((leaf(text), 1))
        crc = zlib.crc32(text[7:43])  # of the id
        cut = len(levels[0]) >= 32 and crc % 96 == 0
        if cut or len(levels[0]) == 512:
            close(0)
            if cut and crc // 96 % 160 == 0 or sum(markets for _, markets in levels[1]) > 65024:
                close(1)
    for level in range(3):
        if levels[level] or level == 2:
            close(level)
    [(whole, markets)] = levels[3]
    return CopyRoot(whole.hex(), markets)

# Filters (INTERFACE 4.5). Of integers: the least and the greatest value, the width of buckets, and names of the values.
LABELS, DAY = ("category", "outcome", "formula_version", "weight_version"), 86_400_000
FEEDS = ("bri-pm-v1",)  # the versions of the feed whose values these are
INTEGERS: dict[str, tuple[int, int, int, list[str]]] = {
    "tier": (1, 7, 1, "RAW CAST FORGED TEMPERED DAMASCUS MITHRIL ADAMANTINE".split()),
    "disputed": (0, 1, 1, ["false", "true"]), "composite": (300, 1000, 50, []),
    **dict.fromkeys("informed integrity oracle catalyst design counterparty".split(), (0, 100, 10, []))}
COLUMNS, RANGES = (*LABELS, *INTEGERS), [name for name, (*_, names) in INTEGERS.items() if not names]
def milliseconds(text: str, name: str = "time", end: bool = False) -> int:
    """Since 1970; of a day alone its beginning or, for an upper bound, its end."""
    try:
        day, clock, fraction, zone = re.fullmatch(  # type: ignore[union-attr]
            r"([0-9-]{10})(?:T([0-9:]{8})(\.[0-9]{1,3})?(Z|[+-][0-9]{2}:[0-9]{2}))?", text).groups()
        time, offset = (clock or "00:00:00") + (fraction or ".").ljust(4, "0"), (zone or "Z").replace("Z", "+00:00")
        moment = datetime.datetime.fromisoformat(f"{day}T{time}{offset}")
    except (AttributeError, ValueError):
        raise invalid(name, f"{name} must be a real day, or a time with Z or an offset.") from None
    return round(moment.timestamp() * 1000) + (DAY - 1 if end and not clock else 0)
def fold(text: str) -> str:
    """The same for texts that are equal under Unicode simple case folding, as far as this Python knows it."""
    odd = {"\u0131": "\u0131", "\u1fd3": "\u0390", "\u1fe3": "\u03b0", "\ufb05": "\ufb06"}
    upper = [char.upper() if len(char.upper()) == 1 else char for char in text]
    return "".join(odd.get(char) or (one.lower() if len(one.lower()) == 1 else one) for char, one in zip(text, upper))
def text_of(value: object) -> str: return str(value).lower() if isinstance(value, bool) else str(value)
FORMS = {**dict.fromkeys(LABELS, r"[\s\S]+"), "from": ".+", "to": ".+",
         **{f"{end}_{name}": "0|[1-9][0-9]{0,3}" for name in RANGES for end in ("min", "max")},
         "tier": "(TIER)(,(TIER))*".replace("TIER", "|".join(INTEGERS["tier"][3])), "disputed": "true|false"}
class Query:
    """What filters select: values by name, ranges of integers, and times. `q` is refused: the message says why."""
    def __init__(self, filters: Mapping[str, Any]):
        given = {name: text_of(value) for name, value in filters.items() if value is not None}
        for name, value in given.items():
            if not re.fullmatch(FORMS.get(name, "(?!)"), value):
                raise invalid(name, f"{name} cannot be evaluated here, or not with this value. Words depend on the "
                                    f"version of Unicode, which is {UNICODE} here. Known: {', '.join(FORMS)}.")
        self.values = {name: [text] if name in LABELS else text.split(",")
                       for name, text in given.items() if name in COLUMNS}
        self.first, self.last = (milliseconds(given[end], end, end == "to") if end in given else none
                                 for end, none in (("from", float("-inf")), ("to", float("inf"))))
        self.ranges = {name: (int(given.get(f"min_{name}", least)), int(given.get(f"max_{name}", most)))
                       for name, (least, most, *_) in INTEGERS.items() if {f"min_{name}", f"max_{name}"} & {*given}}
    def meets(self, header: Json) -> bool: return self.first <= header["newest"] and self.last >= header["oldest"]
    def needed(self, header: Json, by: Sequence[str]) -> list[str]:
        """The sections of a segment that an answer takes. ApiError if it lacks a column for it (column_in)."""
        cut = self.first > header["oldest"] or self.last < header["newest"] or "month" in by
        names = {*self.ranges, *self.values, *by, *(["disputed"] if by else [])} - {"month"}
        fields = {column_in(header, name)["name"] for name in names} | ({"times"} if cut else set())
        return [name for name in header["sections"] if name.split(".")[0] in fields and self.meets(header)]

# The index of a segment (snapshots/SPEC.md, "Segments" and "Index root"). A bitmap is one integer.
count_of: Callable[[int], int] = getattr(int, "bit_count", lambda bits: bin(bits).count("1"))
def buckets_of(name: str) -> dict[Any, tuple[int, int]]:
    """The ranges of values that a facet counts, by their names where they have names."""
    least, most, width, names = INTEGERS[name]
    *starts, last = range(least, most + 2 - width, width)
    ranges = [*((start, start + width - 1) for start in starts), (last, most)]
    return dict(zip(names or ranges, ranges))
def column_in(header: Json, name: str) -> Json:
    """What a header says of a column. ApiError if there is none, or none with only values that are known here."""
    kind, (least, most, *_) = ("label", (0, 0)) if name in LABELS else ("integer", INTEGERS[name])
    for one in header["columns"]:
        if (one["name"], one["kind"]) == (name, kind) and least <= one.get("min", 0) <= one.get("max", 0) <= most:
            return one
    raise invalid(name, f"The snapshot has no index for {name} that this client can read.")
class Segment:
    """A segment whose header was checked. `parts` has, by their hashes, the sections of it that were."""
    def __init__(self, header: Json, parts: Mapping[str, bytes]):
        self.header, self.parts, self.markets = header, parts, header["markets"]
    def part(self, name: str) -> bytes: return self.parts[self.header["sections"][name][1]]
    def integers(self, name: str, low: int, high: int) -> int:
        column = column_in(self.header, name)
        return self.between(name, column["min"], column["max"], low, high)
    def between(self, name: str, least: int, most: int, low: int, high: int) -> int:
        """The markets whose value in slices of `least` to `most` is from `low` to `high`."""
        data, size, every = self.part(name), (self.markets + 31) // 32 * 4, (1 << self.markets) - 1
        must(len(data) == size * (most - least).bit_length())
        slices, bits = [int.from_bytes(data[at:at + size], "little") for at in range(0, len(data), size)], []
        for bound in (low - least, high + 1 - least):
            kept, left = every, max(bound, 0)
            for each in slices:
                kept, left = kept & each if left & 1 else kept | each, left >> 1
            bits.append(0 if left else kept & every)
        return bits[0] & ~bits[1]
    def times(self) -> list[int]:
        epochs = [*self.header["epochs"], [self.markets, 0]]
        highs = (high for (at, high), (end, _) in zip(epochs, epochs[1:]) for _ in range(at, end))
        return [high << 32 | low for high, (low,) in zip(highs, struct.iter_unpack("<I", self.part("times")))]
    def values(self, name: str) -> Iterator[tuple[Any, int]]:
        """Each value of a facet, with the markets that have it."""
        if name in LABELS:
            frequent = column_in(self.header, name)["frequent"]
            rare, starts = json.loads(self.part(f"{name}.rare")), int.from_bytes(self.part(f"{name}.starts"), "little")
            for code, text in enumerate(frequent, 1):
                yield text, self.between(f"{name}.codes", 0 if rare else 1, len(frequent), code, code)
            postings = [*struct.iter_unpack("<H", self.part(f"{name}.postings"))]
            ranks = itertools.accumulate(starts >> place & 1 for place in range(len(postings)))
            for rank, some in itertools.groupby(zip(ranks, postings), lambda entry: entry[0]):
                yield rare[rank - 1], sum(1 << ordinal for _, (ordinal,) in some)
        elif name == "month":
            days, start = [moment // DAY for moment in self.times()], datetime.date(1970, 1, 1)
            for month, some in itertools.groupby(sorted({*days}), lambda day: str(start + datetime.timedelta(day))[:7]):
                own = [*some]
                yield month, (1 << bisect.bisect_right(days, own[-1])) - (1 << bisect.bisect_left(days, own[0]))
        else:
            for value, (low, high) in buckets_of(name).items():
                yield value, self.integers(name, low, high)
    def matches(self, query: Query, unjudged: set[str]) -> int:
        """The markets that a query selects."""
        kept = (1 << self.markets) - 1
        if query.first > self.header["oldest"] or query.last < self.header["newest"]:
            moments = self.times()
            kept &= (1 << bisect.bisect_right(moments, query.last)) - 1 & -1 << bisect.bisect_left(moments, query.first)
        for name, (low, high) in query.ranges.items():
            kept &= self.integers(name, low, high)
        for name, wanted in query.values.items():
            same, found = fold if name == "category" else str, 0
            for one, (text, bits) in ((one, pair) for pair in self.values(name) for one in wanted):
                if same(text) == same(one):
                    found |= bits
                elif same is fold and len(text) == len(one) and all(
                        fold(a) == fold(b) or "Cn" in map(unicodedata.category, a + b) for a, b in zip(text, one)):
                    unjudged.add(f"Whether {text!r} is {one!r} in another case: this Python has Unicode {UNICODE}.")
            kept &= found
        return kept
def facet_of(name: str, found: Mapping[Any, list[int]], limit: int) -> Json:
    """A facet from the numbers of markets and of disputed markets by value (INTERFACE 4.7)."""
    def bucket(value: Any) -> Json:
        who = {"from": value[0], "to": value[1]} if isinstance(value, tuple) else {"value": value}
        return {**who, **dict(zip(("count", "disputed"), found.get(value, (0, 0))))}
    if name in RANGES:
        return {"width": INTEGERS[name][2], "buckets": [*map(bucket, buckets_of(name))]}
    some = [value for value, (count, _) in found.items() if count]
    if name == "month":
        ends = [12 * int(month[:4]) + int(month[5:]) - 1 for month in (min(some), max(some))] if some else [0, -1]
        return {"buckets": [bucket(f"{at // 12:04}-{at % 12 + 1:02}") for at in range(ends[0], ends[1] + 1)]}
    some.sort(key=lambda value: (-found[value][0], value.encode("utf-16-be", "surrogatepass")))
    other = {of: sum(found[value][at] for value in some[limit:]) for at, of in enumerate(("count", "disputed"))}
    return {"distinct": len(some), "buckets": [*map(bucket, some[:limit])], "other": other}
def id_hash(id: str) -> int: return int.from_bytes(sha(id.encode())[:4], "big")
def need_index(entry: Json, listed: Sequence[Json], parts: Sequence[tuple[str, str]]) -> None:
    """Checks that the index root is that over the headers and ids of segments."""
    must(all(is_count(one["markets"], 65536) for one in listed) and all(map(is_hash, sum(parts, ()))))
    nodes, markets = [sha(b"\1", *map(bytes.fromhex, pair)) for pair in parts], sum(one["markets"] for one in listed)
    need((root(INDEX, markets, nodes).hex(), markets) == (entry["indexRoot"], entry["counts"]["markets"]), "index root",
         "The segments do not have the index root of the log's entry.")

class Row(NamedTuple):
    """A market, with its text byte for byte as in the archive. Of changes, `op` is put or, without a text, delete."""
    op: str
    id: str
    text: str
    @property
    def market(self) -> Json: return json.loads(self.text)
def row_in(line: str) -> Row: return Row("put", line[7:43], line)
def change_in(line: str) -> Row:
    form = r'\{"op":"(?:delete","id":"([0-9a-f-]{36})"|put","market":(\{"id":"[0-9a-f-]{36}".*\}))\}'
    gone, put = re.fullmatch(form, line).groups()  # type: ignore[union-attr]
    return row_in(put) if put else Row("delete", gone, "")
Recomputed = NamedTuple("Recomputed", [("snapshot_id", str), ("commit", int), ("total", int), ("facets", Json),
                                       ("vouched", Vouched)])
Absence = NamedTuple("Absence", [("snapshot_id", str), ("commit", int), ("markets", int), ("vouched", Vouched)])
def body_of(answer: Any, most: int = 2**28) -> bytes:
    data: bytes = answer.body.read(most + 1)
    need(len(data) <= most, "answer", f"More than {most} bytes came.")
    if answer.body is answer and len(data) < int(answer.headers["Content-Length"] or 0):
        raise EOFError(f"{len(data)} bytes came.")
    return data
def problem_in(answer: Any) -> ApiError:
    said = json.loads(body_of(answer, 2**16)) if answer.headers.get_content_type() == "application/problem+json" else {}
    after = answer.headers["Retry-After"] or ""
    said["retryAfter"] = int(after) if after.isdigit() else None
    return ApiError(said.get("code", "UNEXPECTED_ANSWER"), said.get("detail", "Try again later."), answer.code, said)
class NoRedirect(urllib.request.HTTPRedirectHandler):
    redirect_request = lambda *_: None  # The key is for one address alone.
class Lines:
    """The lines of an answer, to be iterated over once. The members are known when the first line has come."""
    def __init__(self, client: "Client", path: str, query: Json, read: Callable[[str], Any]):
        self.client, self.path, self.query, self.read = client, path, query, read
        self.snapshot_id, self.archive_root, self.cursor = "", "", query.get("cursor")
        self.total, self.count, self.skip = -1, -1, int(query.get("skip") or 0)  # whole lines, also those skipped
    def __iter__(self) -> Iterator[Any]:
        with self.client.opened(self.path, self.query, "application/x-ndjson") as answer:
            said, wanted = answer.headers, self.query.get("until") or self.query.get("asOf")
            self.snapshot_id, self.archive_root = said["X-Snapshot-Id"], said["X-Archive-Root"]
            self.count, self.total = self.skip + int(said["X-Count"]), int(said["X-Total-Count"] or -1)
            self.cursor = self.cursor or said["X-Cursor"]
            need(not is_hash(wanted) or wanted == self.snapshot_id, "answer", f"The lines are of {self.snapshot_id}.")
            while (line := answer.body.readline(2**20)).endswith(b"\n"):
                need(self.skip < self.count, "answer", f"More than {self.count} lines came.")
                self.skip += 1
                yield self.read(line[:-1].decode())
            if line or self.skip < self.count:
                raise EOFError(f"{self.skip} of {self.count} lines came. Go on behind them with `skip`.")

class Client:
    """Asks the service at `url`. `opener` sends the requests. Every next piece must come within `timeout` seconds."""
    def __init__(self, url: str, key: str | None = None, *, opener: Any = None, timeout: float = 30,
                 keep_bytes: int = 2**26):
        self.base = url.rstrip("/").removesuffix("/api/v1") + "/api/v1"
        if not re.fullmatch(r"https?://[^/?#@\s]+/[^?#\s]*", self.base):
            raise ApiError("INVALID_URL", "url must be an address as https://HOST.")
        if key is not None and not re.fullmatch("[!-~]+", key):
            raise ApiError("INVALID_API_KEY", "A key is prs_live_ and 38 letters and digits.")
        self.headers = {"Accept-Encoding": "gzip", **({"Authorization": f"Bearer {key}"} if key else {})}
        self.opener, self.timeout = opener or urllib.request.build_opener(NoRedirect), timeout
        self.keep_bytes, self.kept = keep_bytes, dict[str, bytes]()  # checked parts by hash, least recently used first
    @contextlib.contextmanager
    def opened(self, path: str, query: Mapping[str, Any], accept: str, body: bytes | None = None) -> Iterator[Any]:
        """An answer, with its `headers` and its `body`. Whatever fails while it is open is an ApiError."""
        given = urllib.parse.urlencode({name: text_of(value) for name, value in query.items() if value is not None})
        headers = {**self.headers, "Accept": accept, **({"Content-Type": "application/json"} if body else {})}
        request = urllib.request.Request(f"{self.base}{path}{'?' if given else ''}{given}", body, headers)
        answer: Any = None
        try:
            try:
                answer = self.opener.open(request, timeout=self.timeout)
            except urllib.error.HTTPError as error:
                answer = error  # It is read as any other answer.
            with answer, checking("answer", f"The answer of {path}"):
                answer.body = gzip.GzipFile(fileobj=answer) if answer.headers["Content-Encoding"] == "gzip" else answer
                if isinstance(answer, urllib.error.HTTPError):
                    raise problem_in(answer)
                yield answer
        except TRANSPORT as error:
            late = isinstance(getattr(error, "reason", error), socket.timeout)
            raise ApiError("TIMEOUT" if late else "BROKEN_ANSWER" if answer else "UNREACHABLE", repr(error)) from error
    def get(self, path: str, query: Mapping[str, Any] = {}, body: bytes | None = None, read: Any = json.loads) -> Any:
        with self.opened(path, query, "*/*", body) as answer:
            return read(body_of(answer))
    def of(self, kind: str, name: str, part: str = "", as_of: str | None = None) -> Json:
        return self.get(f"/{kind}/{urllib.parse.quote(name, safe='')}{part}", {"asOf": as_of})
    # What the service says, as it is. `as_of` is the id of a snapshot, or a time.
    def scores(self, as_of: str | None = None) -> Json: return self.get("/scores", {"asOf": as_of})
    def score(self, slug: str, as_of: str | None = None) -> Json: return self.of("scores", slug, "", as_of)
    def history(self, slug: str, as_of: str | None = None) -> Json: return self.of("scores", slug, "/history", as_of)
    def dimensions(self, slug: str, as_of: str | None = None) -> Json:
        return self.of("scores", slug, "/dimensions", as_of)
    def score_proof(self, slug: str, as_of: str | None = None) -> Json: return self.of("scores", slug, "/proof", as_of)
    def market(self, id: str, as_of: str | None = None) -> Json: return self.of("markets", id, "", as_of)
    def proof(self, id: str, as_of: str | None = None) -> Json: return self.of("markets", id, "/proof", as_of)
    def tiers(self) -> Json: return self.get("/tiers")
    def status(self) -> Json: return self.get("/status")
    def usage(self) -> Json: return self.get("/usage")
    def snapshots(self) -> Json: return self.get("/snapshots")
    def exports(self) -> Json: return self.get("/markets/exports")
    def checkpoint(self) -> str: return self.get("/checkpoint", read=bytes.decode)
    def batch(self, slugs: Sequence[str]) -> Json:
        return self.get("/scores/batch", body=json.dumps({"slugs": [*slugs]}).encode())
    def facets(self, by: Sequence[str], filters: Mapping[str, Any] = {}) -> Json:
        return self.get("/markets/facets", {"by": ",".join(by), **filters})
    def page(self, filters: Mapping[str, Any] = {}) -> Json: return next(self.pages(filters))
    def pages(self, filters: Mapping[str, Any] = {}) -> Iterator[Json]:
        """Walks through the archive, from `cursor` of the filters on if there is one. All pages are of one snapshot."""
        before, seen, query = None, 0, filters
        while query is not None:
            with self.opened("/markets/historical", query, "*/*") as answer:
                page, now = json.loads(body_of(answer)), answer.headers["X-Snapshot-Id"]
                seen, now, cursor = seen + page["count"], (now, page["total"]), page["nextCursor"]
                need(page["count"] == len(page["markets"]), "answer", "The page lacks markets.")
                need(before in (None, now), "answer", f"The walk goes on in snapshot {now[0]}.")
                need(cursor is None or page["count"] and seen < page["total"], "answer", "The walk does not end.")
            yield page
            before, query = now, cursor and {"cursor": cursor}
    def rows(self, filters: Mapping[str, Any] = {}) -> Lines:
        """Every market that matches, as a Row. To go on behind those that came, give `cursor` and `skip` as filters."""
        return Lines(self, "/markets/historical", dict(filters), row_in)
    def changes(self, since: str, until: str | None = None, skip: int | None = None) -> Lines:
        """What differs between two snapshots, each id once: first the Rows to delete, then those to put."""
        return Lines(self, "/markets/changes", {"since": since, "until": until, "skip": skip}, change_in)
    def copy(self, folder: Union[str, os.PathLike[str]], trust: Trust = Trust()) -> tuple[pathlib.Path, CopyRoot]:
        """Brings the copy in a folder, archive-SNAPSHOT.ndjson, up to date, or makes one. It replaces the one before
        once it has the root and the number of markets of the log's entry. Memory holds it whole."""
        entry, _ = verify_entry(self.get("/markets/index"), trust)
        until, held = entry["snapshotId"], [*pathlib.Path(folder).glob("archive-*.ndjson")]
        rows: Iterable[Row] = self.rows({"asOf": until})
        try:
            if held:
                lines = held[0].read_text("utf-8").split("\n")[:-1]
                rows = [*map(row_in, lines), *self.changes(held[0].stem[8:], until)]
        except ApiError as error:
            if error.code not in ("SNAPSHOT_EXPIRED", "SNAPSHOT_NOT_FOUND"):
                raise
        texts = {row.id: row.text for row in rows}.values()
        ordered = sorted(filter(None, texts), key=lambda text: (json.loads(text)["resolvedAt"], text[7:43]))
        copy, path = archive_root(ordered), pathlib.Path(folder, f"archive-{until}.ndjson")
        need(copy == (entry["archiveRoot"], entry["counts"]["markets"]), "archive root",
             f"The copy is not the archive of snapshot {until}: it has {copy.markets} markets and the root {copy[0]}."
             + "".join(f" If somebody changed {one.name} here, delete it." for one in held))
        path.with_suffix(".part").write_bytes("\n".join([*reversed(ordered), ""]).encode())
        path.with_suffix(".part").replace(path)
        for other in {*held} - {path}:
            other.unlink()
        return path, copy
    def parts(self, wanted: Mapping[str, int], what: str, hash_of: Callable[[bytes], bytes]) -> dict[str, bytes]:
        """Parts of indexes by their hashes, against which they are checked. `wanted` says how many bytes each has."""
        need(all(is_count(size, 2**28) for size in wanted.values()), what, "A part would be too large.")
        found = {name: self.kept.pop(name, b"") for name in wanted if name in self.kept or not wanted[name]}
        while missing := [name for name in wanted if name not in found][:100]:
            data, at = self.get("/markets/index/sections", {"of": ",".join(missing)}, read=bytes), 0
            for name in missing:
                found[name], at = data[at:at + wanted[name]], at + wanted[name]
            need(at == len(data), "answer", f"{len(data)} bytes came, not {at}.")
        for name, data in found.items():
            need(len(data) == wanted[name] and hash_of(data).hex() == name, what, f"A {what} is not {name}.")
        self.kept.update(found)
        while sum(map(len, self.kept.values())) > self.keep_bytes:
            self.kept.pop(next(iter(self.kept)))
        return found
    def known(self, path: str, query: Mapping[str, Any], trust: Trust) -> tuple[Json, Json, Vouched]:
        """An answer about the index, the log's entry, and what vouches for it."""
        if trust.snapshot_id is not None and trust.key is trust.entry is None:
            raise invalid("trust", "A snapshot_id does not cover the index. Give the publisher's key, or an entry.")
        if query["asOf"] is not None and not is_hash(query["asOf"]):
            raise invalid("asOf", "Which snapshot a time means is not checked here. Give the id of one.")
        said = self.get(path, query)
        return (said, *verify_entry(said, trust, query["asOf"]))
    def recompute(self, filters: Mapping[str, Any] = {}, by: Sequence[str] = (), limit: int = 100,
                  trust: Trust = Trust(), as_of: str | None = None) -> Recomputed:
        """How many markets match, and their facets, evaluated here on the sections of the index that this takes, each
        checked against the index root in the log's entry. `limit` is the most values listed of each facet."""
        if {*by} - {*COLUMNS, "month"} or len({*by}) < len(by) or not 0 < limit <= 1000:
            raise invalid("by", f"by takes {', '.join(COLUMNS)} and month, each once; limit is up to 1000.")
        query, (said, entry, vouched) = Query(filters), self.known("/markets/index", {"asOf": as_of}, trust)
        with checking("index root", "The list of segments"):
            listed, markets = said["segments"], entry["counts"]["markets"]
            need_index(entry, listed, [(one["header"]["hash"], one["ids"]["hash"]) for one in listed])
            texts = self.parts({one["header"]["hash"]: one["header"]["bytes"] for one in listed}, "header", sha)
        with checking("header", "The header of a segment's index"):
            headers = [json.loads(texts[one["header"]["hash"]]) for one in listed]
            must(all(one["version"] == 1 and one["markets"] == of["markets"] for one, of in zip(headers, listed)))
            own = root(ARCHIVE, markets, [bytes.fromhex(one["root"]) for one in headers]).hex()
            need(own == entry["archiveRoot"], "archive root", f"The index is of the archive with the root {own}.")
            named = [one["sections"][name] for one in headers for name in query.needed(one, by)]
            parts, total = self.parts({name: size for size, name in named}, "section", section_root), 0
        feed, known, unjudged = entry["feedVersion"], ", ".join(FEEDS), set[str]()
        if feed not in FEEDS and (by or {*query.ranges, *query.values} - {*LABELS}):
            unjudged.add(f"Which values markets of version {feed} of the feed have; this client knows {known}.")
        found: dict[str, dict[Any, list[int]]] = {name: {} for name in by}
        with checking("section", "The index"):
            for segment in (Segment(header, parts) for header in headers if query.meets(header)):
                kept = segment.matches(query, unjudged)
                disputed = kept & segment.integers("disputed", 1, 1) if by else 0
                total += count_of(kept)
                for name, (value, bits) in ((name, pair) for name in by for pair in segment.values(name)):
                    counts = found[name].setdefault(value, [0, 0])
                    counts[:] = counts[0] + count_of(bits & kept), counts[1] + count_of(bits & disputed)
            facets = {name: facet_of(name, found[name], limit) for name in by}
        vouched = vouched._replace(complete=vouched.complete and not unjudged, unjudged=sorted(unjudged))
        return Recomputed(said["snapshotId"], said["commit"], total, facets, vouched)
    def absent(self, id: str, trust: Trust = Trust(), as_of: str | None = None) -> Absence:
        """Shows that an id is not in the archive (INTERFACE 4.12). ApiError NOT_FOUND: the service says that it is."""
        said, entry, vouched = self.known("/markets/index/absence", {"id": id, "asOf": as_of}, trust)
        wanted, nodes = id_hash(id), []
        with checking("absence", "What shows that the id is absent"):
            others, whole = said["others"], (entry["archiveRoot"], entry["counts"]["markets"])
            names = [json.loads(one["market"])["id"] for one in others]
            sound = {archive_from(one["market"], one) for one in others} <= {whole} and len({*names, id}) > len(names)
            need(sound and {*map(id_hash, names)} <= {wanted}, "absence", "A market with the same hash is not one.")
            for at, segment in enumerate(said["segments"]):
                markets, ids, roots = segment["markets"], segment["ids"], set()
                hashes: dict[int, int] = {}  # what is known of them, by place
                must(is_count(markets, 65536) and ids["bytes"] == 6 * markets and ids["size"] == -(-6 * markets // 256))
                for chunk in ids["chunks"]:
                    data, start = b64(chunk["content"]), chunk["index"] * 64
                    must(len(data) == min(256, ids["bytes"] - 4 * start))
                    roots.add(root_from(SECTION, leaf(data), {**chunk, "size": ids["size"]}, ids["bytes"]))
                    form = f"<{min(len(data) // 4, markets - start)}I"
                    hashes.update(enumerate(struct.unpack_from(form, data), start))
                first = max([-1, *(place for place, one in hashes.items() if one < wanted)]) + 1
                end = min([markets, *(place for place, one in hashes.items() if one > wanted)])
                same, named = [*hashes.values()].count(wanted), sum(one["archive"]["index"] == at for one in others)
                need(end - first == same == named and len(roots) == 1, "absence", f"Segment {at} may have the id.")
                nodes.append((segment["header"], roots.pop().hex()))
            need_index(entry, said["segments"], nodes)
        return Absence(said["snapshotId"], said["commit"], entry["counts"]["markets"], vouched)
