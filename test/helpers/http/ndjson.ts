import { once } from "node:events";
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";

/** Headers that ask for all rows in one answer. */
export const wantsRows = { accept: "application/x-ndjson" };

/** An answer in NDJSON, read only as far as a test says. */
export interface RowsReader {
  status: number;
  headers: IncomingHttpHeaders;
  /** Whole lines received so far. */
  lines: string[];
  /** Reads until this many lines have arrived. Throws if the answer ends before that. */
  until(count: number): Promise<void>;
  /** Reads to the end. Throws if the answer is cut off, or its last line is incomplete. */
  toEnd(): Promise<string[]>;
  /** Reads everything, and returns how the answer ended. */
  ending(): Promise<"whole" | "broken off">;
  /** Closes the connection. */
  leave(): void;
}

/** Asks for what is read piece by piece; `next` gives undefined at the end, and throws where it breaks off. */
export async function askPieces(url: string, headers: Record<string, string>) {
  const request = httpRequest(url, { agent: false, headers });
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  request.on("error", () => {});
  const pieces: AsyncIterator<Buffer, undefined> = response[Symbol.asyncIterator]();
  return {
    status: response.statusCode!,
    headers: response.headers,
    next: async () => (await pieces.next()).value,
    /** Closes the connection. */
    leave: () => void request.destroy(),
  };
}

/** Asks for all rows. */
export async function askRows(url: string, headers: Record<string, string>): Promise<RowsReader> {
  const { next, ...answer } = await askPieces(url, { ...wantsRows, ...headers });
  const lines: string[] = [];
  let rest = "";
  const more = async () => {
    const value = await next();
    if (!value) return false;
    const parts = (rest + value.toString("latin1")).split("\n");
    rest = parts.pop()!;
    for (const line of parts) lines.push(Buffer.from(line, "latin1").toString());
    return true;
  };
  return {
    ...answer,
    lines,
    async until(count) {
      while (lines.length < count) if (!(await more())) throw new Error(`only ${lines.length} lines came`);
    },
    async toEnd() {
      while (await more());
      if (rest !== "") throw new Error(`the last line does not end: ${rest}`);
      return lines;
    },
    async ending() {
      try {
        while (await more());
        return "whole";
      } catch {
        return "broken off";
      }
    },
  };
}
