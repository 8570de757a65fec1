import { resolve } from "node:path";
import { directoryStorage } from "./directory.ts";
import type { Storage } from "./storage.ts";

/** Opens the store a user named: a directory, relative to `base`. */
export function openStorage(location: string, base: string): Storage {
  return directoryStorage(resolve(base, location));
}
