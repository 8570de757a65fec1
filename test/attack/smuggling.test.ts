import { readFileSync } from "node:fs";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { type Attacked, archive, expectOwnRequest, startAttacked } from "../helpers/attack/target.ts";
import { answersIn } from "../helpers/attack/wire.ts";
import { good, respond, startFaultyOrigin } from "../helpers/http/faulty-origin.ts";
import { bearer } from "../helpers/http/proxy-client.ts";

const attacked: Attacked = await startAttacked();
const { proxy, origin, keys } = attacked;
afterAll(() => attacked.stop());
beforeEach(() => {
  origin.requests.length = 0;
  origin.behave = good;
});

const path = "/api/v1/scores/aave";
const host = "Host: proxy.test\r\n";
/** What the body is or hides: requests that would take a unit of a key's, one of them for the archive. */
const hiddenKey = await proxy.issue({ owner: "hidden", quota: 1_000_000 });
const hidden =
  `GET /api/v1/scores HTTP/1.1\r\n${host}X-Api-Key: ${hiddenKey}\r\n\r\n` +
  `GET ${archive} HTTP/1.1\r\n${host}X-Api-Key: ${hiddenKey}\r\nConnection: close\r\n\r\n`;
/** Units that requests took since the last time this was asked, which takes one itself. */
let left = 1_000_000;
async function unitsTaken(): Promise<number> {
  const { headers } = await proxy.get("/api/v1/scores/curve.fi", { headers: bearer(hiddenKey) });
  const before = left;
  left = Number(headers["x-ratelimit-remaining"]);
  return before - left - 1;
}

const meant = Object.entries({
  ...{ "\\r": "\r", "\\n": "\n", "\\t": "\t", "\\0": "\0", "\\x0b": "\x0b", "{HOST}": host, "{PATH}": path },
  ...{ "{HIDDEN}": hidden, "{LENGTH}": `${hidden.length}`, "{SIZE}": hidden.length.toString(16) },
  ...{ "{ARCHIVE}": archive, "{DEVELOPER}": keys.developer },
});
const mean = (text: string) => meant.reduce((all, [name, value]) => all.replaceAll(name, () => value), text);
/** The rows of each section of smuggling.txt. */
const [framings = [], elsewhere = []] = readFileSync(new URL("smuggling.txt", import.meta.url), "utf8")
  .trimEnd()
  .split("\n\n")
  .map((section) => section.split("\n").slice(1))
  .map((rows) => rows.map((row) => row.split(" > ").map(mean)));

describe("a request whose end two servers may see in different places", () => {
  test.for(framings)("%s: at most one answer, then the connection ends", async ([, rest]) => {
    for (const method of ["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT"]) {
      origin.requests.length = 0;
      const received = answersIn(await proxy.raw(`${method} ${path} HTTP/1.1\r\n${host}${rest}`));
      expect(received.length, method).toBeLessThanOrEqual(1);
      for (const answer of received) expect(answer.headers).toContainEqual(["connection", "close"]);
      // What is hidden is not carried out either, though nobody would get its answer.
      expect([method, await unitsTaken()]).toEqual([method, 0]);
      // The request itself and the one for the count.
      expect(origin.requests.length, method).toBeLessThanOrEqual(2);
      for (const head of origin.requests) expectOwnRequest(origin, head);
    }
  });

  test("one after the other on a connection, each is answered in order, the hidden ones too", async () => {
    const received = answersIn(await proxy.raw(`GET ${path} HTTP/1.1\r\n${host}\r\n${hidden}`));
    expect(received.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(received.map(({ text }) => JSON.parse(text).slug)).toEqual(["aave", undefined, undefined]);
    expect(origin.requests).toHaveLength(2);
    expect(await unitsTaken()).toBe(2);
  });
});

describe("a request that points elsewhere", () => {
  test.for(elsewhere)(
    "%s changes neither where the origin is nor what it is asked",
    async ([, target, fields = ""]) => {
      const ending = fields.includes("Connection:") ? "" : "Connection: close\r\n";
      const last = ending ? "" : `GET /healthz HTTP/1.1\r\n${host}Connection: close\r\n\r\n`;
      const text = await proxy.raw(`GET ${target} HTTP/1.1\r\n${fields}${ending}\r\n${last}`);
      const [answer] = answersIn(text);
      expect(text).not.toMatch(/evil|169\.254/);
      expect(target === path ? [200] : [400, 404]).toContain(answer!.status);
      expect(origin.requests).toHaveLength(target === path ? 1 : 0);
      for (const head of origin.requests) expectOwnRequest(origin, head);
    },
  );
});

describe("an origin that points elsewhere or says too much", () => {
  test.each([301, 302, 303, 307, 308])("a %i is not followed", async (status) => {
    const other = await startFaultyOrigin(async () => Buffer.from("evil"));
    const fields = [
      `Location: ${other.url}`,
      `Refresh: 0;url=${other.url}`,
      `Content-Location: ${other.url}`,
    ];
    origin.behave = (socket) => respond(socket, `${status} Moved`, fields, "evil");
    const answer = await proxy.get(path);
    expect([answer.status, answer.json().code]).toEqual([502, "UPSTREAM_ERROR"]);
    expect(JSON.stringify(answer)).not.toMatch(/evil|location/i);
    expect([other.connections, origin.requests.length]).toEqual([0, 1]);
    await other.stop();
  });

  const said = [
    ...["Server: AmazonS3", "X-Powered-By: evil", "Set-Cookie: evil=1", "Via: 1.1 evil", "X-Cache: Hit"],
    ...["X-Amz-Request-Id: evil", "X-Amz-Meta-Key: evil", "X-Amz-Cf-Id: evil", "X-Amz-Version-Id: evil"],
    ...["Location: http://evil.test/", "Link: <http://evil.test/>", "Alt-Svc: h3=evil", "Age: 1"],
    ...["Access-Control-Allow-Origin: http://evil.test", "Access-Control-Allow-Credentials: true"],
    ...["Content-Disposition: attachment", "Content-Language: xx", "Last-Modified: evil", "ETag: evil"],
    ...["Cache-Control: public, max-age=9", "Expires: evil", "Vary: *", "Content-Security-Policy: evil"],
    ...["Strict-Transport-Security: max-age=0", "X-RateLimit-Remaining: 999999", "WWW-Authenticate: evil"],
    ...["Clear-Site-Data: *", "Trailer: X-Evil", "Keep-Alive: timeout=9", "X-Request-Id: evil"],
  ];
  test.each(["GET", "HEAD"])("%s passes on none of its headers", async (method) => {
    const own = await proxy.get(path, { method });
    const changing = ["date", "x-request-id", "x-ratelimit-remaining", "ratelimit"];
    const constant = (headers: object) =>
      Object.entries(headers).filter(([name]) => !changing.includes(name));
    origin.behave = (socket, body) => respond(socket, "200 OK", said, body);
    const answer = await proxy.get(path, { method });
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.headers)).toEqual(Object.keys(own.headers));
    expect(constant(answer.headers)).toEqual(constant(own.headers));
    expect(JSON.stringify(answer.headers)).not.toMatch(/evil|amz|999999/i);
  });

  test("two answers for one request: the second goes to nobody", async () => {
    origin.behave = (socket, body) => {
      const head = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`;
      socket.write(
        Buffer.concat([Buffer.from(head), body, Buffer.from(head), Buffer.alloc(body.length, "x")]),
      );
    };
    for (const slug of ["aave", "curve.fi", "lido-dao", "aave"]) {
      const answer = await proxy.get(`/api/v1/scores/${slug}`);
      expect([answer.status, answer.json().slug]).toEqual([200, slug]);
    }
  });
});
