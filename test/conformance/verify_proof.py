"""Checks the proof of a market or a score as snapshots/SPEC.md, "Proofs", says, with Python's standard library alone.
usage: verify_proof.py ANSWER [KEY [ID]]     ANSWER is JSON or a tlog-proof; KEY is NAME+ID+BASE64; without it no signature is checked
"""
import base64, hashlib, json, re, sys
P = 2**255 - 19  # Ed25519 as in RFC 8032, 5.1; points are (X, Y, Z, T) with x = X/Z, y = Y/Z and xy = T/Z
ORDER, D = 2**252 + 27742317777372353535851937790883648493, -121665 * pow(121666, -1, P) % P

def need(holds, message):
    if not holds:
        raise ValueError(message)

def add(a, b):
    s, t, u, v = (a[1] - a[0]) * (b[1] - b[0]), (a[1] + a[0]) * (b[1] + b[0]), 2 * a[3] * b[3] * D, 2 * a[2] * b[2]
    e, f, g, h = t - s, v - u, v + u, t + s
    return e * f % P, g * h % P, f * g % P, e * h % P
def times(n, point):
    result = (0, 1, 1, 0)
    while n:
        result, point, n = add(result, point) if n & 1 else result, add(point, point), n >> 1
    return result

def point_of(encoded):
    sign, y = divmod(int.from_bytes(encoded, "little"), 2**255)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    need(y < P and (x * x - square) % P == 0 and (x or not sign), "it is no point of the curve")
    x = x if x & 1 == sign else P - x
    return x, y, 1, x * y % P

def is_signed(text, key, signature):
    base, s = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little")), int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + text).digest(), "little") % ORDER
    a, b = times(s, base), add(point_of(signature[:32]), times(k, point_of(key)))
    return len(signature) == 64 and s < ORDER and all((a[i] * b[2] - b[i] * a[2]) % P == 0 for i in (0, 1))
def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()
def hash_of(text):
    return need(re.fullmatch("[0-9a-f]{64}", text), "a hash is not 64 lower-case hex digits") or bytes.fromhex(text)
def head_from(node, index, size, path):
    need(all(type(n) is int and 0 <= n < 2**53 for n in (index, size)) and index < size, "there is no such place")
    last = size - 1
    for other in map(hash_of, path):
        need(last > 0, "a path is too long")
        on_right = index % 2 or index == last
        node = sha256(b"\1", other, node) if on_right else sha256(b"\1", node, other)
        while on_right and index and index % 2 == 0:
            index, last = index // 2, last // 2
        index, last = index // 2, last // 2
    need(last == 0, "a path is too short")
    return node
def root_from(kind, node, index, size, path, markets):
    need(type(markets) is int and 0 <= markets < 2**53, "there is no such number of markets")
    return sha256(bytes([kind]), *(n.to_bytes(8, "little") for n in (markets, size)), head_from(node, index, size, path))

def signed_text(note, key):
    (name, key_id, encoded), (text, lines) = key.split("+", 2), note.rsplit("\n\n", 1)
    raw, parts = base64.b64decode(encoded, validate=True), [line.split(" ") for line in lines.split("\n")[:-1]]
    need(raw[0] == 1 and sha256(name.encode(), b"\n", raw)[:4].hex() == key_id, "the key is no Ed25519 key")
    need(all(p == ["—", p[1], base64.b64encode(base64.b64decode(p[2])).decode()] for p in parts), "a line is no signature")
    own = [data for data in (base64.b64decode(p[2]) for p in parts if p[1] == name) if data[:4].hex() == key_id]
    need(own and is_signed(f"{text}\n".encode(), raw[1:], own[0][4:]) and text.startswith(f"{name}\n"), "the key did not sign it")
    return f"{text}\n"

def verify(snapshotId, commit, entry, checkpoint, proof, market=None, score=None, key=None, asked=None):
    said = json.loads(entry)
    counts = said["counts"]
    text = (f"prs-snapshot 1 {said['feedVersion']}\nmarkets {counts['markets']}\nprotocols {counts['protocols']}\n"
            f"archive {said['archiveRoot']}\nscores {said['scoresRoot']}\n")
    need(said["snapshotId"] == snapshotId == sha256(text.encode()).hex() and said["commit"] == commit, "the entry is another's")
    if market is not None:
        root = sha256(b"\0", market.encode())
        for kind, level in ((2, "page"), (3, "segment"), (4, "archive")):
            root = root_from(kind, root, **proof[level])
        belongs = root.hex() == said["archiveRoot"] and proof["archive"]["markets"] == counts["markets"]
    else:
        line = f"score {json.loads(score)['slug']} {sha256(score.encode()).hex()}"
        root = root_from(5, sha256(b"\0", line.encode()), **proof["score"], markets=proof["score"]["size"])
        belongs = root.hex() == said["scoresRoot"]
    named = json.loads(score)["slug"] if market is None else json.loads(market)["id"]
    need(belongs and asked in (None, named), "it does not belong to the snapshot, or is not what was asked for")
    if key or checkpoint is not None:  # None without a key: nobody signed the log, and the answer only agrees with itself
        stated = re.fullmatch("[^\0-\37]+\n([1-9][0-9]{0,9})\n([^\0-\37]+)\n\n([^\0-\37]+\n)+", checkpoint)
        head = head_from(sha256(b"\0", entry.encode()), commit - 1, int(stated[1]), proof["inclusion"])
        need(base64.b64encode(head).decode() == stated[2], "the log does not have the entry")
        key and signed_text(checkpoint, key)
    return snapshotId

def read(text):
    if not text.startswith("c2sp.org/tlog-proof@v1\n"):
        return json.loads(text)
    lines, checkpoint = text.split("\n\n", 1)
    _, extra, index, *hashes = lines.split("\n")
    answer = json.loads(base64.b64decode(extra.removeprefix("extra "), validate=True))
    need(index == f"index {answer['commit'] - 1}", "the index is another commit's")
    answer["proof"]["inclusion"] = [base64.b64decode(line, validate=True).hex() for line in hashes]
    return answer | {"checkpoint": checkpoint}

if __name__ == "__main__":
    print(verify(**read(open(sys.argv[1], encoding="utf-8", newline="").read()), **dict(zip(("key", "asked"), sys.argv[2:]))))
