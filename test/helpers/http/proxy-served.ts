import { afterAll, beforeAll } from "vitest";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "./proxy.ts";

/** A test proxy for the tests of a file or suite: call it outside of tests, and read it inside. */
export function serveTestProxy(options: TestProxyOptions = {}): TestProxy {
  const proxy = {} as TestProxy;
  beforeAll(async () => void Object.assign(proxy, await startTestProxy(options)));
  afterAll(() => proxy.stop?.());
  return proxy;
}
