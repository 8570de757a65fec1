"""Checks a folder of public artefacts by the rules of their fields, with Python's standard library alone.
Prints what it found as JSON; ends with an AssertionError at the first fault."""

import datetime
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as xml
from html.parser import HTMLParser

root, site = pathlib.Path(sys.argv[1]), sys.argv[2]
atom = "{http://www.w3.org/2005/Atom}"
map_ = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
svg = "{http://www.w3.org/2000/svg}"
void = {"meta", "link", "img", "br"}


def read(name):
    return (root / name).read_bytes()


def moment(text):
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text), text
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def unique(values):
    values = list(values)
    assert len(set(values)) == len(values), values
    return values


class Page(HTMLParser):
    """Reads a page and insists that every element is closed where it was opened."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.metas, self.links, self.ids, self.data, self.text = [], {}, [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attributes):
        assert unique(name for name, _ in attributes) or not attributes
        given = dict(attributes)
        assert not any(name.startswith("on") or name == "style" for name in given), given
        assert tag not in ("style", "iframe", "form", "object", "embed", "base"), tag
        if tag == "script":
            assert given == {"type": "application/ld+json"}, given
        if tag == "img":
            assert "alt" in given
        if tag == "meta" and ("name" in given or "property" in given):
            name = given.get("name") or given["property"]
            assert name not in self.metas and given["content"], name
            self.metas[name] = given["content"]
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag not in void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        (self.data if self.open and self.open[-1] == "script" else self.text).append(data)


feed = xml.fromstring(read("feed.xml"))
assert feed.tag == atom + "feed"
assert all(len(feed.findall(atom + name)) == 1 for name in ("id", "title", "updated", "author"))
assert [link.get("href") for link in feed.findall(atom + "link") if link.get("rel") == "self"] == [site + "feed.xml"]
entries = feed.findall(atom + "entry")
unique(entry.findtext(atom + "id") for entry in entries)
times = [moment(each.findtext(atom + "updated")) for each in [feed, *entries]]
assert times == sorted(times, reverse=True)
uuid = r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
for entry in entries:
    assert entry.findtext(atom + "title") and entry.findtext(atom + "summary")
    assert re.fullmatch(uuid, entry.findtext(atom + "id"))

sitemap = xml.fromstring(read("sitemap.xml"))
assert sitemap.tag == map_ + "urlset" and len(sitemap) <= 50_000
addresses = unique(url.findtext(map_ + "loc") for url in sitemap)
assert all(address.startswith(site) and len(address) < 2048 for address in addresses)
for url in sitemap:
    moment(url.findtext(map_ + "lastmod") or "2000-01-01T00:00:00.000Z")

badges = sorted(root.glob("badges/*.svg"))
for badge in badges:
    picture = xml.fromstring(badge.read_bytes())
    assert badge.stat().st_size <= 1500, badge.stat().st_size
    assert {each.tag for each in picture.iter()} <= {svg + tag for tag in ("svg", "title", "rect", "path", "g", "text")}
    assert picture.get("role") == "img" and picture.get("aria-label") == picture.findtext(svg + "title")
    assert " ".join(text.text for text in picture.iter(svg + "text")).startswith(badge.name[:-4] + " ")

texts = {}
for path in sorted(root.glob("protocols/*/index.html")):
    slug = path.parent.name
    page = Page(path.read_text(encoding="utf-8"))
    assert site + f"protocols/{slug}/index.html" in addresses
    assert all(page.metas[name] for name in ("description", "og:title", "og:type", "og:url", "og:image"))
    (data,) = [json.loads(text) for text in page.data]
    assert data["@context"] == "https://schema.org" and data["mainEntity"]["@type"] == "Dataset"
    assert 50 <= len(data["mainEntity"]["description"]) <= 5000
    for link in page.links:
        target = (path.parent / link.split("#")[0]).resolve()
        assert link.startswith("http") or target.is_relative_to(root.resolve()), link
    texts[slug] = "".join(page.text)

dataset = json.loads(read("dataset.jsonld"))
assert dataset["conformsTo"] == "http://mlcommons.org/croissant/1.0" and dataset["@type"] == "sc:Dataset"
assert all(dataset[name] for name in ("name", "description", "url", "creator", "datePublished"))
assert re.fullmatch(r"\d+\.\d+\.\d+", dataset["version"])
files = {each["@id"]: each for each in dataset["distribution"]}
unique(each["@id"] for each in dataset["distribution"])
for each in files.values():
    if each["@type"] == "cr:FileSet":
        assert all(files[part["@id"]]["encodingFormat"] == each["encodingFormat"] for part in each["containedIn"])
    else:
        assert re.fullmatch("[0-9a-f]{64}", each["sha256"]) and re.fullmatch(r"\d+ B", each["contentSize"])
        assert each["contentUrl"].startswith("http") and each["contentUrl"].endswith("/" + each["@id"])
assert files["scores.json"]["encodingFormat"] == "application/json"
fields = [field for records in dataset["recordSet"] for field in records["field"]]
unique(field["@id"] for field in fields)
for field in fields:
    source = field["source"].get("fileObject") or field["source"]["fileSet"]
    assert source["@id"] in files and field["dataType"] and field["source"]["extract"]

found = {"badges": [each.name for each in badges], "fields": [each["name"] for each in fields], "addresses": addresses}
print(json.dumps({**found, "entries": [each.findtext(atom + "title") for each in entries], "texts": texts}))
