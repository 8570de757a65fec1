import { storeOption } from "../../store.ts";

export const flag = (does: string) => ({ type: "boolean", does }) as const;
export const number = (does: string) => ({ type: "string", value: "N", does }) as const;

/** The options of every command that opens a store. */
export const common = { ...storeOption, json: flag("one JSON object on stdout, nothing else") };
