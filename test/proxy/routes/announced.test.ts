import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Endpoint, type EndpointId, endpoints } from "../../../schemas/endpoints.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, outcome } from "../../helpers/http/proxy-client.ts";

let proxy: TestProxy;
let aegis: string;
let developer: string;
beforeAll(async () => {
  proxy = await startTestProxy();
  aegis = await proxy.issue();
  developer = await proxy.issue({ plan: "developer", owner: "dev", quota: 1 });
  // The one unit is spent.
  await ask("/api/v1/scores", bearer(developer));
});
afterAll(() => proxy.stop());

const ask = async (path: string, headers = {}, method = "GET") =>
  outcome(await proxy.get(path, { method, headers }));
const left = async (key: string) =>
  (await proxy.get("/api/v1/usage", { headers: bearer(key) })).json().remaining;
const handshake =
  "Connection: Upgrade, close\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

const rows: [EndpointId, string, string][] = [
  ["batchScores", "/api/v1/scores/batch", "415 UNSUPPORTED_MEDIA_TYPE"],
  ["scoreHistory", "/api/v1/scores/aave/history", "200"],
  ["scoreDimensions", "/api/v1/scores/aave/dimensions", "200"],
  ["scoreFeed", "/api/v1/ws/scores", "426 UPGRADE_REQUIRED"],
];

describe.each(rows)("the switch in the row %s of the endpoint table", (id, path, available) => {
  const row: Endpoint = endpoints[id];
  const method = row.method === "WS" ? "GET" : row.method;
  beforeEach(() => {
    row.availability = "announced";
  });
  afterEach(() => {
    row.availability = "available";
  });

  test("marks it as announced only, for every plan and whatever is asked", async () => {
    for (const headers of [{}, bearer(developer), bearer(aegis)]) {
      expect(await ask(path, headers, method)).toBe("501 COMING_SOON");
      expect(await ask(`${path}?x=1`, headers, method)).toBe("501 COMING_SOON");
    }
    expect(await ask(path.replace("aave", "unknown"), {}, method)).toBe("501 COMING_SOON");
  });

  test("has methods and credentials checked all the same", async () => {
    expect(await ask(path, {}, "DELETE")).toBe("405 METHOD_NOT_ALLOWED");
    expect(await ask(path, { "x-api-key": "wrong" }, method)).toBe("401 INVALID_API_KEY");
    const two = { ...bearer(aegis), "x-api-key": developer };
    expect(await ask(path, two, method)).toBe("400 CONFLICTING_CREDENTIALS");
    expect(await ask(path, {}, "OPTIONS")).toBe("204");
  });

  test("takes no unit, and logs no error", async () => {
    const before = await left(aegis);
    const answer = await proxy.get(path, { method, headers: bearer(aegis) });
    expect(answer.headers["x-ratelimit-remaining"]).toBeUndefined();
    expect(await left(aegis)).toBe(before);
    expect(proxy.logged.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  });

  test("answers before a body has come, and instead of going over to another protocol", async () => {
    for (const rest of ["Expect: 100-continue\r\nContent-Length: 9\r\n", handshake]) {
      const request = `${method} ${path} HTTP/1.1\r\nHost: x\r\nx-api-key: ${aegis}\r\n${rest}`;
      const answer = await proxy.raw(rest === handshake ? `${request}\r\nx` : `${request}\r\n{`);
      expect(answer).toMatch(/^HTTP\/1\.1 501 .*\r\nConnection: close\r\n.*"code":"COMING_SOON"/s);
    }
  });

  test("is of that row alone, and can be taken back", async () => {
    const others = rows.filter(([other]) => other !== id);
    for (const [other, where, expected] of others) {
      const how = endpoints[other].method === "POST" ? "POST" : "GET";
      expect(await ask(where, bearer(aegis), how)).toBe(expected);
    }
    row.availability = "available";
    expect(await ask(path, bearer(aegis), method)).toBe(available);
  });
});
