import type { Bench } from "../run.ts";
import { evaluation, facets, lastPages, pages, walk, words } from "./archive.ts";
import { publishing } from "./publishing.ts";
import { recompute } from "./recompute.ts";
import { farPublish, farStore } from "./remote-store.ts";
import { health, memory, score } from "./service.ts";
import { site } from "./site.ts";

/** What `npm run bench` measures, by the names that `--rows` takes. */
export const rows: Record<string, (bench: Bench) => Promise<void>> = {
  walk,
  pages,
  "last-pages": lastPages,
  evaluation,
  facets,
  words,
  score,
  health,
  memory,
  publishing,
  recompute,
  "far-store": farStore,
  "far-publish": farPublish,
  site,
};
