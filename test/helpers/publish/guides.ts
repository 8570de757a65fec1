import { readFileSync } from "node:fs";

/** What whoever uses, runs or changes the service reads: the README and the files into which it leads. */
export const guides = [
  "README.md",
  ".github/CONTRIBUTING.md",
  "proxy/README.md",
  ".github/deploy/README.md",
  ".github/deploy/OPERATING.md",
  ".github/deploy/SOURCES.md",
  "test/bench/README.md",
];

/** What one looks something up in; it is read as a whole. */
export const shortGuides = [".github/CHANGELOG.md", ".github/SECURITY.md"];

/** What the project promises, which the code cites by section. */
export const references = ["schemas/INTERFACE.md", "snapshots/SPEC.md", "snapshots/PUBLISHING.md"];

/** A fenced block of a guide. */
export interface Block {
  /** What follows the fence; "" where nothing does. */
  language: string;
  text: string;
}

/** Every fenced block of a text in Markdown, in order. */
export function blocksIn(markdown: string): Block[] {
  const blocks: Block[] = [];
  let open: Block | undefined;
  for (const line of markdown.split("\n")) {
    const fence = /^\s*```(.*)$/.exec(line)?.[1];
    if (open && fence === "") {
      blocks.push(open);
      open = undefined;
    } else if (open) open.text += `${line}\n`;
    else if (fence !== undefined) open = { language: fence, text: "" };
  }
  if (open) throw new Error(`a block does not end: ${open.text}`);
  return blocks;
}

/** A text of the project. */
export const guide = (file: string): string =>
  readFileSync(new URL(`../../../${file}`, import.meta.url), "utf8");

/**
 * The blocks of all guides, which test/scripts/sessions runs, but for the one for machines: files.test.ts installs as
 * that says, and deployment.test.ts follows it.
 */
export const guideBlocks = guides
  .filter((file) => file !== ".github/deploy/README.md")
  .flatMap((file) => blocksIn(guide(file)));

/** The one of these that has these words. */
export function blockWith(words: string): Block {
  const [found, ...others] = guideBlocks.filter(({ text }) => text.includes(words));
  if (!found || others.length > 0) throw new Error(`${others.length + (found ? 1 : 0)} blocks have ${words}`);
  return found;
}
