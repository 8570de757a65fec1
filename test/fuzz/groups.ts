import * as asked from "./asked.ts";
import * as sent from "./sent.ts";
import * as signed from "./signed.ts";
import * as stored from "./stored.ts";
import type { Target } from "./target.ts";

/** The targets by the files that have them. */
export const groups: Record<string, Record<string, Target>> = {
  stored: stored.targets,
  asked: asked.targets,
  signed: signed.targets,
  sent: sent.targets,
};
