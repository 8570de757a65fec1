import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer } from "../../helpers/http/proxy-client.ts";

const list = "/api/v1/scores";

let proxy: TestProxy;
let aegis: string;
beforeAll(async () => {
  proxy = await startTestProxy();
  aegis = await proxy.issue();
});
afterAll(() => proxy.stop());

const keyed = (headers: Record<string, string> = {}) => ({ headers: { ...bearer(aegis), ...headers } });
describe("If-None-Match", () => {
  const ask = (path: string, encoding: string | undefined, tag?: string) => {
    const accept = encoding === undefined ? {} : { "accept-encoding": encoding };
    return proxy.get(path, keyed({ ...accept, ...(tag && { "if-none-match": tag }) }));
  };

  test("strong tags differ by coding, and either is honoured where that coding is acceptable", async () => {
    const [plain, zipped] = [
      (await ask(list, "identity")).headers.etag!,
      (await ask(list, "gzip")).headers.etag!,
    ];
    expect(plain).not.toBe(zipped);
    expect(plain).toMatch(/^"[0-9a-f]{64}"$/);
    expect((await ask(list, "gzip", plain)).status).toBe(304);
    expect((await ask(list, undefined, zipped)).status).toBe(304);
    expect((await ask(list, "identity", zipped)).status).toBe(200);
  });
});

describe("the log", () => {
  test("holds patterns and names of known parameters, no target, no value, no key", async () => {
    const secret = "SECRETCANARY";
    const line = async (path: string, headers: Record<string, string> = {}) => {
      const { "x-request-id": id } = (await proxy.get(path, { headers })).headers;
      return proxy.logs(String(id));
    };
    const page = JSON.parse(
      await line(`/api/v1/markets/historical?outcome=${secret}&min_composite=300`, bearer(aegis)),
    );
    expect(page.req).toMatchObject({
      route: "/api/v1/markets/historical",
      parameters: ["outcome", "min_composite"],
    });
    await line(`/api/v1/scores/${secret}?${secret}=1`, {
      "x-api-key": secret,
      cookie: secret,
      "user-agent": secret,
    });
    await line(`/${secret}`, { authorization: `Bearer ${secret}` });
    expect(proxy.logged.join("")).not.toContain(secret);
    expect(proxy.logged.join("")).not.toContain(aegis);
  });
});
