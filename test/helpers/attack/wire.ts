import { once } from "node:events";
import { connect } from "node:net";
import { gunzipSync } from "node:zlib";
import type { Answer } from "../http/proxy-client.ts";

/** One answer among the bytes that came back over a connection. */
export interface WireAnswer {
  status: number;
  /** Names in lower case and values, repetitions kept. */
  headers: [string, string][];
  /** The body, decoded from its coding. */
  text: string;
}

/** Every answer in the bytes of a connection, in order, interim ones too. */
export function answersIn(received: string): WireAnswer[] {
  return received
    .split(/(?=HTTP\/1\.1 \d{3} [A-Z])/)
    .filter((part) => part !== "")
    .map(parsed);
}

function parsed(part: string): WireAnswer {
  const end = part.indexOf("\r\n\r\n");
  const [line = "", ...fields] = part.slice(0, end).split("\r\n");
  const headers = fields.map((field): [string, string] => {
    const colon = field.indexOf(": ");
    return [field.slice(0, colon).toLowerCase(), field.slice(colon + 2)];
  });
  const body = Buffer.from(part.slice(end + 4), "latin1");
  const gzipped = body.length > 0 && headers.some(([name]) => name === "content-encoding");
  return {
    status: Number(line.split(" ")[1]),
    headers,
    text: (gzipped ? gunzipSync(body) : body).toString("utf8"),
  };
}

/** The same as a client of HTTP has it. */
export function answerOf({ status, headers, text }: WireAnswer): Answer {
  const body = Buffer.from(text);
  return { status, headers: Object.fromEntries(headers), body, text, json: () => JSON.parse(text) };
}

/** The value of a header of an answer. */
export const headerOf = (answer: WireAnswer, name: string) =>
  answer.headers.find(([candidate]) => candidate === name)?.[1];

const last = "GET /healthz HTTP/1.1\r\nHost: last\r\nConnection: close\r\n\r\n";

/**
 * Sends bytes on a connection of its own, completes their head, and returns every answer until the other side closes. A
 * last request makes it close. That request is sent after the first answer, because a parser drops the connection,
 * pending answers included, when bytes follow a request that was to be the last.
 */
export async function attackWith(port: number, bytes: string): Promise<WireAnswer[]> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => socket.destroy());
  socket.write(Buffer.from(`${bytes}\r\n\r\n`, "latin1"));
  let received = "";
  let asked = false;
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    if (asked || !received.includes("\r\n\r\n")) return;
    asked = true;
    if (!/\r\nconnection: close\r\n/i.test(received)) socket.write(last);
  });
  await once(socket, "close");
  return answersIn(received);
}
