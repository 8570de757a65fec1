import { expect } from "vitest";
import { sectionRootOf } from "../../../snapshots/index/index-header.ts";
import { openSections } from "../../../snapshots/index/sections.ts";
import { readIndexHeader } from "../../../snapshots/index/segment.ts";
import { parseIndexHeader } from "../../../snapshots/read/fetched-index.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestManifest, type Objects } from "../store/tamper.ts";

/** What a service gives of the index of a segment: its header, its sections and its words. */
export interface IndexParts {
  header: Uint8Array;
  sections: Map<string, Uint8Array>;
  words: Uint8Array;
}

/** The index of a store's newest snapshot. Every section has the root that its header names. */
export function indexParts(objects: Objects): IndexParts[] {
  return newestManifest(objects).segments.map(({ hash, words }) => {
    const stored = objects.get(layout.segment(hash))!;
    const { sections: places, body } = openSections("segment", stored, stored.toString("latin1", 0, 8));
    const header = readIndexHeader("segment", stored);
    const sections = Object.entries(parseIndexHeader("index", header).sections).map(
      ([name, [bytes, root]]) => {
        const [offset] = places[name]!;
        const section = new Uint8Array(body.subarray(offset, offset + bytes));
        expect(sectionRootOf(section)).toBe(root);
        return [name, section] as const;
      },
    );
    return {
      header: new Uint8Array(header),
      sections: new Map(sections),
      words: new Uint8Array(objects.get(layout.words(words.hash))!),
    };
  });
}
