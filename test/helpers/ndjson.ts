import { once } from "node:events";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";

/** What a client asks with for all rows in one answer. */
export const wantsRows = { accept: "application/x-ndjson" };

/** An answer in NDJSON, read only as far as a test says. */
export interface RowsReader {
  status: number;
  headers: IncomingHttpHeaders;
  /** Whole lines received so far. */
  lines: string[];
  /** Reads on until there are so many lines; throws when the answer ends before. */
  until(count: number): Promise<void>;
  /** Reads to the end; throws when there is none, or what stands before it is no whole line. */
  toEnd(): Promise<string[]>;
  /** Reads what there is and tells how it ended. */
  ending(): Promise<"whole" | "broken off">;
  /** Goes away. */
  leave(): void;
}

/** Asks for all rows. */
export async function askRows(url: string, headers: Record<string, string>): Promise<RowsReader> {
  const request = httpRequest(url, { agent: false, headers: { ...wantsRows, ...headers } });
  request.end();
  const [response] = await once(request, "response");
  request.on("error", () => {});
  const chunks: AsyncIterator<Buffer> = response[Symbol.asyncIterator]();
  const lines: string[] = [];
  let rest = "";
  const more = async () => {
    const { value, done } = await chunks.next();
    if (done) return false;
    const parts = (rest + value.toString("latin1")).split("\n");
    rest = parts.pop()!;
    for (const line of parts) lines.push(Buffer.from(line, "latin1").toString());
    return true;
  };
  return {
    status: response.statusCode,
    headers: response.headers,
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
    leave: () => request.destroy(),
  };
}
