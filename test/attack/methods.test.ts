import { afterAll, describe, expect, test } from "vitest";
import { foreignAt } from "../../schemas/addresses.ts";
import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
import { plans } from "../../schemas/plans.ts";
import { type Attacked, expectOwnRequest, startAttacked } from "../helpers/attack/target.ts";
import { answersIn, headerOf, type WireAnswer } from "../helpers/attack/wire.ts";

const attacked: Attacked = await startAttacked();
const { proxy, origin, keys } = attacked;
afterAll(() => attacked.stop());

const table: readonly Endpoint[] = Object.values(endpoints);
const addresses = [...new Set(table.map(({ path }) => path))];
const methods = ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "TRACE", "QUERY", "PROPFIND"];
const slug = "aave";

/** An address of an endpoint: its path with the variables filled in. */
function addressOf({ path, files = [""] }: Pick<Endpoint, "path" | "files">): string {
  return path
    .replace(":slug", slug)
    .replace(":id", "00000000-0000-4000-8000-000000000007")
    .replace(":hash", "0".repeat(64))
    .replace(":changes", "0".repeat(64))
    .replace(":snapshotId", "0".repeat(64))
    .replace(":name", "markets-0001.parquet")
    .replace("*logFile", "tile/0/000.p/1")
    .replace(":file", files[0]!);
}

async function ask(method: string, path: string, fields = ""): Promise<WireAnswer> {
  const address = addressOf(table.find((row) => row.path === path) ?? { path });
  const head = `${method} ${address} HTTP/1.1\r\nHost: proxy.test\r\n`;
  const received = answersIn(await proxy.raw(`${head}Connection: close\r\n${fields}\r\n`));
  expect(received).toHaveLength(1);
  return received[0]!;
}

/** The code of an error, in the service's own shape or in that of MCP or Delta Sharing. */
function codeOf(answer: WireAnswer): string | undefined {
  if (!/json/.test(headerOf(answer, "content-type") ?? "") || answer.text === "") return undefined;
  const said = JSON.parse(answer.text);
  return (said.error?.data ?? said).code ?? said.errorCode;
}

/** The methods a path answers beside OPTIONS, by the table. */
function answeredAt(path: string): string[] {
  const rows = table.filter((row) => row.path === path);
  return rows.flatMap(({ method }) => {
    if (method === "GET") return ["GET", "HEAD"];
    return method === "WS" ? ["GET"] : [method];
  });
}

/** What a row answers to a caller without a key and a body. */
function expectedStatus({ plan, body, path }: Endpoint): number {
  if (plans[plan].rank > 0) return 401;
  // The commits here are not signed.
  if (path === endpoints.checkpoint.path) return 404;
  return body ? 415 : 200;
}

/** What TRACE is asked with, by somebody who may read everything, and what must not come back. */
const traced = `Authorization: Bearer ${keys.aegis}\r\nCookie: a=CANARY\r\nX-CANARY: 1\r\nMax-Forwards: 0\r\n`;
const echoed = /CANARY|TRACE \/|prs_live|message\/http/i;

describe.each(addresses)("%s", (path) => {
  const allow = [...answeredAt(path), "OPTIONS"].join(", ");
  const row = table.find((one) => one.path === path)!;

  test.each(methods)("%s is answered as the table says, or by 405 and Allow", async (method) => {
    origin.requests.length = 0;
    const fields = method === "TRACE" ? traced : "";
    const answer = await ask(method, path, fields);
    if (method === "TRACE") expect(JSON.stringify(answer)).not.toMatch(echoed);
    if (method === "OPTIONS") {
      expect([answer.status, headerOf(answer, "allow"), answer.text]).toEqual([204, allow, ""]);
    } else if (answeredAt(path).includes(method)) {
      expect(answer.status).toBe(expectedStatus(row));
      expect(headerOf(answer, "allow")).toBeUndefined();
    } else {
      expect([answer.status, headerOf(answer, "allow")]).toEqual([405, allow]);
      expect(codeOf(answer)).toBe(method === "HEAD" ? undefined : "METHOD_NOT_ALLOWED");
      expect(headerOf(answer, "content-type")).toMatch(
        // Errors have the shape of another protocol there.
        foreignAt(path) ? /^application\/json/ : /^application\/problem\+json$/,
      );
    }
    expect(origin.requests.length).toBeLessThanOrEqual(answer.status === 200 ? 1 : 0);
    for (const head of origin.requests) expectOwnRequest(origin, head);
  });

  test("HEAD has the headers of GET, whatever is asked with", async () => {
    const kept = ({ headers }: WireAnswer) =>
      headers.filter(
        ([name]) => !["date", "x-request-id", "x-ratelimit-remaining", "ratelimit"].includes(name),
      );
    const presented = ["", ...[keys.aegis, keys.revoked].map((key) => `X-Api-Key: ${key}\r\n`)];
    const asked = ["", "Accept-Encoding: gzip\r\n", "If-None-Match: *\r\n"];
    for (const fields of presented.flatMap((key) => asked.map((more) => key + more))) {
      const [get, head] = [await ask("GET", path, fields), await ask("HEAD", path, fields)];
      expect(head.text).toBe("");
      if (!answeredAt(path).includes("HEAD")) continue;
      expect([fields, head.status]).toEqual([fields, get.status]);
      expect(kept(head)).toEqual(kept(get));
    }
  });
});
