"""Reads a proof as JSON, or as the text of c2sp.org/tlog-proof, as snapshots/SPEC.md, "Proofs", says."""
import base64, json
def read(text):
    if not text.startswith("c2sp.org/tlog-proof@v1\n"):
        return json.loads(text)
    lines, checkpoint = text.split("\n\n", 1)
    _, extra, index, *hashes = lines.split("\n")
    answer = json.loads(base64.b64decode(extra.removeprefix("extra "), validate=True))
    if index != f"index {answer['commit'] - 1}":
        raise ValueError("the index is another commit's")
    answer["proof"]["inclusion"] = [base64.b64decode(line, validate=True).hex() for line in hashes]
    return answer | {"checkpoint": checkpoint}
