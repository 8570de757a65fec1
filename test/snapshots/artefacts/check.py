"""Checks that public artefacts are well-formed whatever texts they have, with Python's standard library alone. What
every field of them says is in golden/.
Prints the texts of protocols' pages as JSON; ends with an AssertionError at the first fault."""

import json
import pathlib
import sys
import xml.etree.ElementTree as xml
from html.parser import HTMLParser

root, site = pathlib.Path(sys.argv[1]), sys.argv[2]
map_ = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
svg = "{http://www.w3.org/2000/svg}"
void = {"meta", "link", "img", "br"}


def read(name):
    return (root / name).read_bytes()


def unique(values):
    values = list(values)
    assert len(set(values)) == len(values), values
    return values


class Page(HTMLParser):
    """Reads a page and insists that every element is closed where it was opened."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.metas, self.links, self.data, self.text = [], {}, [], [], []
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


sitemap = xml.fromstring(read("sitemap.xml"))
addresses = unique(url.findtext(map_ + "loc") for url in sitemap)
assert all(address.startswith(site) and len(address) < 2048 for address in addresses)

badges = sorted(root.glob("badges/*.svg"))
for badge in badges:
    picture = xml.fromstring(badge.read_bytes())
    assert {each.tag for each in picture.iter()} <= {svg + tag for tag in ("svg", "title", "rect", "path", "g", "text")}
    assert " ".join(text.text for text in picture.iter(svg + "text")).startswith(badge.name[:-4] + " ")

texts = {}
for path in sorted(root.glob("protocols/*/index.html")):
    slug = path.parent.name
    page = Page(path.read_text(encoding="utf-8"))
    assert site + f"protocols/{slug}/index.html" in addresses
    (data,) = [json.loads(text) for text in page.data]
    assert 50 <= len(data["mainEntity"]["description"]) <= 5000
    for link in page.links:
        target = (path.parent / link.split("#")[0]).resolve()
        assert link.startswith("http") or target.is_relative_to(root.resolve()), link
    texts[slug] = "".join(page.text)

# By the rules of Croissant, every field is of a file that is named.
dataset = json.loads(read("dataset.jsonld"))
files = set(unique(each["@id"] for each in dataset["distribution"]))
fields = [field for records in dataset["recordSet"] for field in records["field"]]
unique(field["@id"] for field in fields)
for field in fields:
    source = field["source"].get("fileObject") or field["source"]["fileSet"]
    assert source["@id"] in files and field["dataType"] and field["source"]["extract"]

xml.fromstring(read("feed.xml"))
print(json.dumps(texts))
