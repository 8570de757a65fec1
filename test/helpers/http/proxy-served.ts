import { afterAll, beforeAll, onTestFinished } from "vitest";
import { type SmallS3, startSmallS3 } from "../store/small-s3.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "./proxy.ts";

/** A test proxy for the tests of a file or suite: call it outside of tests, and read it inside. */
export function serveTestProxy(options: TestProxyOptions = {}): TestProxy {
  const proxy = {} as TestProxy;
  beforeAll(async () => void Object.assign(proxy, await startTestProxy(options)));
  afterAll(() => proxy.stop?.());
  return proxy;
}

/** Another proxy over the store of one, which it reaches through an S3 with these faults, to the end of the test. */
export async function anotherOverS3(
  { storage, another }: TestProxy,
  fault: SmallS3["fault"],
): Promise<TestProxy> {
  const s3 = await startSmallS3(storage);
  onTestFinished(s3.stop);
  s3.fault = fault;
  const proxy = await another({ snapshotStore: "s3://bucket", environment: s3.environment });
  onTestFinished(proxy.stop);
  return proxy;
}
