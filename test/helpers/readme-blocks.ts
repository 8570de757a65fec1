import { readFileSync } from "node:fs";

/** A fenced block of the README. */
export interface Block {
  /** Title of the section of second order that it stands in. */
  section: string;
  /** What follows the fence; "" where nothing does. */
  language: string;
  text: string;
}

/** Every fenced block of a text in Markdown, in order. */
export function blocksIn(markdown: string): Block[] {
  const blocks: Block[] = [];
  let section = "";
  let open: Block | undefined;
  for (const line of markdown.split("\n")) {
    const fence = /^\s*```(.*)$/.exec(line)?.[1];
    if (open && fence === "") {
      blocks.push(open);
      open = undefined;
    } else if (open) open.text += `${line}\n`;
    else if (fence !== undefined) open = { section, language: fence, text: "" };
    else section = /^## (.*)$/.exec(line)?.[1] ?? section;
  }
  if (open) throw new Error(`a block in ${section} does not end`);
  return blocks;
}

/** The blocks of the README. */
export const readmeBlocks = (): Block[] =>
  blocksIn(readFileSync(new URL("../../README.md", import.meta.url), "utf8"));
