"""Reads the words of a segment, as snapshots/SPEC.md, "Words", says, with Python's standard library alone."""
import itertools, json, re, struct, unicodedata
from index_header import need

def normalised(text):
    return unicodedata.normalize("NFKC", text).lower().replace("ς", "σ")

def words_of(text, query=""):
    marked = "".join(c if unicodedata.category(c)[0] in "LMN" or c == query else " " for c in normalised(text))
    return set(re.findall(r"[^ *]+\*?", marked))

def numbers(data, at):
    """The numbers in LEB128 from a place on, each with the place behind it."""
    number = shift = 0
    for at in range(at, len(data)):
        number, shift = number | (data[at] & 127) << shift, shift + 7
        if data[at] < 128:
            yield number, at + 1
            number = shift = 0

def ordinals_of(posting, markets):
    size = (markets + 31) // 32 * 4
    if len(posting) == size:
        bits = int.from_bytes(posting, "little")
        return [n for n in range(markets) if bits >> n & 1]
    need(len(posting) < size, "a posting is longer than a bitmap")
    gaps = (number for number, _ in numbers(posting, 0))
    return list(itertools.accumulate(gaps, lambda before, gap: before + gap + 1))

def read_words(data, questions):
    """The ordinals of each word, found to be those of the questions, which come by ordinal."""
    magic, length, zero = struct.unpack_from("<8sII", data)
    header, start = json.loads(data[16:16 + length]), (16 + length + 7) // 8 * 8
    told = magic, zero, header["formatVersion"], header["markets"]
    need(told == (b"PRSWRD\r\n", 0, 4, len(questions)), "these are no words of the segment")
    stored = {name: data[start + at:start + at + size] for name, (at, size) in header["sections"].items()}
    blocks, dictionary, found = [*struct.iter_unpack("<II", stored["blocks"])], stored["dictionary"], {}
    place = posting = 0
    for n in range(header["words"]):
        if n % 16 == 0:
            need(blocks[n // 16] == (place, posting), "a block begins elsewhere")
            word = b""
        (shared, _), (more, _), (size, place) = itertools.islice(numbers(dictionary, place), 3)
        word, before, place = word[:shared] + dictionary[place:place + more], word, place + more
        need(before < word or n % 16 == 0, "the words are not in order")
        found[word.decode()] = ordinals_of(stored["postings"][posting:posting + size], len(questions))
        posting += size
    need((place, posting) == (len(dictionary), len(stored["postings"])), "there is more than words")
    expected = {}
    for ordinal, question in enumerate(questions):
        for word in words_of(question):
            expected.setdefault(word, []).append(ordinal)
    need(found == expected and list(found) == sorted(found, key=str.encode), "the words are not those of the questions")
    return found

def with_words(words, size, query):
    """Whether each market has all words of a query; a word that ends with * stands for all that begin so."""
    kept = set(range(size))
    for wanted in words_of(query, "*"):
        kept &= {
            n
            for word, found in words.items()
            if word == wanted or wanted[-1] == "*" and word.startswith(wanted[:-1])
            for n in found
        }
    return [n in kept for n in range(size)]
