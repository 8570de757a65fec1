import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { archive } from "./target.ts";

const host = "Host: proxy.test\r\n";
const end = "Connection: close\r\n\r\n";
const headerNames = [
  ...["Proxy-Authorization", "Cookie", "Referer", "User-Agent", "Origin", "X-Request-Id", "X-Forwarded-For"],
  ...["Forwarded", "If-None-Match", "Accept-Encoding", "Content-Type", "Expect", "Upgrade", "Range", "TE"],
  ...["Transfer-Encoding", "Content-Length", "X-Original-URL", "X-HTTP-Method-Override", "Traceparent"],
];
const paths = (key: string) => [
  ...[`/${key}`, `/api/v1/${key}`, `/api/v1/scores/${key}`, `/api/v1/scores/${key.toLowerCase()}`, key],
  ...[
    `/api/v1/scores/${key}/history`,
    `/api/v1/scores/%zz${key}`,
    `http://${key}@proxy.test/healthz`,
    `/#${key}`,
  ],
  ...[`/api/v1/scores?apikey=${key}&apikey=${key}`, `/api/v1/ws/scores?token=${key}`, `/healthz?${key}`],
  ...["category", "tier", "min_composite", "from", "page", "cursor"].map(
    (name) => `${archive}?${name}=${key}`,
  ),
  ...[
    `${archive}?tier=RAW&tier=${key}`,
    `${archive}?cursor=${btoa(`[1,"${key}"]`)}`,
    `/api/v1/scores?${key}%zz`,
  ],
  // The name of a parameter.
  ...[`/api/v1/scores?${key}`, `/api/v1/status?${key}=1`, `${archive}?page=1&${key}=2`, `${archive}?=${key}`],
];

/** Whole requests that hold a key in every place where one may end up, whether it belongs there or not. */
export function requestsWith(key: string): string[] {
  const headers = [
    ...[`Authorization: Bearer ${key}`, `X-Api-Key: ${key}`, `Authorization: ${key}`, `Bearer: ${key}`],
    ...[`Authorization: Basic ${btoa(`user:${key}`)}`, `Authorization: Digest ${key}`, `${key}: 1`],
    ...[`Authorization: Bearer ${key}\r\nX-Api-Key: other`, `X-Api-Key: ${key}\r\nX-Api-Key: ${key}`],
    ...[`X-Api-Key: ${key}\0`, `X-Api-Key: "${key}"`, `X-Api-Key:\r\n ${key}`, `${key}`, `Host: ${key}`],
    ...headerNames.map((name) => `${name}: ${key}`),
    `X-Api-Key: ${key.repeat(400)}`,
  ];
  const targets = ["/api/v1/scores", "/api/v1/scores/aave", archive, "/api/v1/ws/scores", "/api/v1/status"];
  const bodies = [
    `Content-Length: ${key.length}\r\n\r\n${key}`,
    `Transfer-Encoding: chunked\r\n\r\n0;${key}\r\nX-Api-Key: ${key}\r\n\r\n`,
    `Transfer-Encoding: chunked\r\n\r\n${key}\r\n\r\n`,
  ];
  return [
    ...targets.flatMap((target) =>
      headers.map((field) => `GET ${target} HTTP/1.1\r\n${host}${field}\r\n${end}`),
    ),
    ...paths(key).map((path) => `GET ${path} HTTP/1.1\r\n${host}X-Api-Key: ${key}\r\n${end}`),
    ...paths(key).map((path) => `POST ${path} HTTP/1.1\r\n${host}${end}`),
    ...bodies.map((body) => `POST /api/v1/scores/batch HTTP/1.1\r\n${host}X-Api-Key: ${key}\r\n${body}`),
    ...bodies.map((body) => `GET ${archive} HTTP/1.1\r\n${host}X-Api-Key: ${key}\r\n${body}`),
    `TRACE / HTTP/1.1\r\n${host}Authorization: Bearer ${key}\r\n${end}`,
    `CONNECT ${key}:443 HTTP/1.1\r\n${host}\r\n`,
    `${key} / HTTP/1.1\r\n${host}\r\n`,
    `GET / ${key}\r\n${host}\r\n`,
    `${key}\r\n\r\n`,
  ];
}

/** Every spelling of keys' secret parts that something may have made of them. */
export function spellingsOf(keys: readonly string[]): string[] {
  return keys.flatMap((key) => {
    const secret = key.slice("prs_live_".length);
    // Base64 of a text within another begins at one of three places; what lies at its edges differs.
    const encoded = [0, 1, 2].map((place) => btoa(secret.slice(place, place + 24)));
    return [
      secret.slice(0, 30),
      secret.slice(8),
      ...encoded,
      Buffer.from(secret.slice(0, 20)).toString("hex"),
    ];
  });
}

/** The spellings that a text holds, in any case. */
export function found(spellings: readonly string[], text: string): string[] {
  const lower = text.toLowerCase();
  return spellings.filter((spelling) => lower.includes(spelling.toLowerCase()));
}

/** All bytes of all files below a directory. */
export async function bytesBelow(directory: string): Promise<string> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const contents = await Promise.all(
    files.map((file) => readFile(join(file.parentPath, file.name), "latin1")),
  );
  return contents.join("\n");
}
