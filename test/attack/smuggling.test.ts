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
const size = hidden.length.toString(16);

/** Headers and what follows them, each of which some two servers read differently. */
const framings: [string, string][] = [
  ["a sound length", `Content-Length: 5\r\n\r\nhello${hidden}`],
  ["sound chunks", `Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n${hidden}`],
  ["chunked", `Transfer-Encoding: chunked\r\n\r\n${size}\r\n${hidden}\r\n0\r\n\r\n`],
  ["chunked, ended at once", `Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["chunk extensions", `Transfer-Encoding: chunked\r\n\r\n0;a="b\r\n\r\n"\r\n\r\n${hidden}`],
  ["a chunk size with a bare LF", `Transfer-Encoding: chunked\r\n\r\n0\n\n${hidden}`],
  ["a chunk size with 0x", `Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n${hidden}`],
  ["a chunk size that overflows", `Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n${hidden}`],
  ["trailers", `Transfer-Encoding: chunked\r\nTrailer: Host\r\n\r\n0\r\nHost: evil.test\r\n\r\n${hidden}`],
  [
    "trailers that hold a length",
    `Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 99\r\n\r\n${hidden}`,
  ],
  ["length, then chunked", `Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["chunked, then length", `Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${hidden}`],
  ["chunked and length 0", `Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n${hidden}`],
  ["chunked twice", `Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  [
    "chunked and identity",
    `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${hidden}`,
  ],
  ["chunked, identity", `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${hidden}`],
  ["identity", `Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n${hidden}`],
  ["gzip, chunked", `Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["xchunked", `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["CHUNKED", `TRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n${hidden}`],
  ["a vertical tab before chunked", `Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["a tab before chunked", `Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["quotes around chunked", `Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n${hidden}`],
  ["a folded Transfer-Encoding", `Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["a space before the colon", `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["a space before the name", ` Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["a bare CR before the name", `X: x\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["a bare LF before the name", `X: x\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["a NUL in the name", `Transfer-Encoding\0: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["an empty Transfer-Encoding", `Transfer-Encoding:\r\n\r\n${hidden}`],
  ["the same length twice", `Content-Length: 5\r\nContent-Length: 5\r\n\r\n${hidden}`],
  ["two lengths", `Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`],
  ["two lengths in one field", `Content-Length: 0, ${hidden.length}\r\n\r\n${hidden}`],
  ["a length with a sign", `Content-Length: +5\r\n\r\n${hidden}`],
  ["a negative length", `Content-Length: -1\r\n\r\n${hidden}`],
  ["a length with 0x", `Content-Length: 0x5\r\n\r\n${hidden}`],
  ["a length with zeroes", `Content-Length: 000\r\n\r\n${hidden}`],
  ["a length with a space inside", `Content-Length: 0 5\r\n\r\n${hidden}`],
  ["a length beyond 64 bits", `Content-Length: 18446744073709551616\r\n\r\n${hidden}`],
  ["an empty length", `Content-Length:\r\n\r\n${hidden}`],
  ["a folded length", `Content-Length: 0\r\n 5\r\n\r\n${hidden}`],
  ["a length too long for what comes", `Content-Length: 99999\r\n\r\n${hidden}`],
  ["Expect with a length", `Expect: 100-continue\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`],
  ["Expect with chunks", `Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ["an upgrade with a length", `Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\n${hidden}`],
];

describe("a request whose end two servers may see in different places", () => {
  test.each(framings)("%s: at most one answer, then the connection ends", async (_what, rest) => {
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
  const elsewhere: [string, string, string][] = [
    ["an absolute target", "http://evil.test/api/v1/scores/aave", host],
    ["a target with //", "//evil.test/api/v1/scores/aave", host],
    ["a target with a user", "@evil.test/api/v1/scores/aave", host],
    ["a metadata address", "http://169.254.169.254/latest/meta-data/", host],
    ["a path of the origin", "/cdn/public/api/v1/scores.json", host],
    ["a slug with a path", "/api/v1/scores/..%2f..%2fprivate", host],
    ["a slug with an address", "/api/v1/scores/http:%2f%2fevil.test", host],
    ["another Host", path, "Host: evil.test\r\n"],
    ["a Host with a path", path, "Host: proxy.test/../evil\r\n"],
    ["an empty Host", path, "Host:\r\n"],
    ["X-Forwarded-Host", path, `${host}X-Forwarded-Host: evil.test\r\nX-Forwarded-Proto: evil\r\n`],
    ["X-Original-URL", path, `${host}X-Original-URL: ${archive}\r\nX-Rewrite-URL: ${archive}\r\n`],
    ["a method override", path, `${host}X-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: PUT\r\n`],
    ["Forwarded", path, `${host}Forwarded: for=1.1.1.1;host=evil.test;proto=evil\r\n`],
    ["a range", path, `${host}Range: bytes=0-1\r\nIf-Range: "x"\r\n`],
    [
      "conditions",
      path,
      `${host}If-None-Match: "evil"\r\nIf-Modified-Since: Sun, 01 Mar 2026 00:00:00 GMT\r\n`,
    ],
    ["Connection-listed headers", path, `${host}Connection: X-Evil, Authorization\r\nX-Evil: evil\r\n`],
    ["credentials", path, `${host}Authorization: Bearer ${keys.developer}\r\nProxy-Authorization: evil\r\n`],
    ["TE and Via", path, `${host}TE: trailers, evil\r\nVia: 1.1 evil\r\nMax-Forwards: 0\r\nCookie: evil\r\n`],
  ];
  test.each(elsewhere)(
    "%s changes neither where the origin is nor what it is asked",
    async (_what, target, fields) => {
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

  test.each(["%0d%0aSet-Cookie:%20evil=1", "%00", "%0a%0aevil", "%E5%98%8A%E5%98%8DSet-Cookie:evil"])(
    "%s in slug, name or value adds no header",
    async (text) => {
      const plain = answersIn(
        await proxy.raw(`GET ${path}?x=1 HTTP/1.1\r\n${host}Connection: close\r\n\r\n`),
      );
      const names = plain[0]!.headers.map(([name]) => name);
      const fields = `${host}X-Api-Key: ${keys.aegis}\r\nConnection: close\r\n\r\n`;
      for (const target of [`${path}?${text}=1`, `${archive}?tier=${text}`, `${archive}?cursor=${text}`]) {
        const received = answersIn(await proxy.raw(`GET ${target} HTTP/1.1\r\n${fields}`));
        expect(received.map(({ status }) => status)).toEqual([400]);
        const added = received[0]!.headers.map(([name]) => name).filter((name) => !names.includes(name));
        expect(added).toEqual([]);
      }
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
