import { randomBytes } from "node:crypto";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import type { S3Environment } from "../../snapshots/storage/s3.ts";

/** The environment of a running S3 server for tests, or undefined; `.ci/run` starts one and sets it. */
export function s3Environment(): (S3Environment & { AWS_ENDPOINT_URL_S3: string }) | undefined {
  const { TEST_S3_ENDPOINT } = process.env;
  if (TEST_S3_ENDPOINT) return { AWS_ENDPOINT_URL_S3: TEST_S3_ENDPOINT, AWS_REGION: "us-east-1" };
  if (process.env.CI) throw new Error("CI runs the S3 tests too: TEST_S3_ENDPOINT must name a server");
  console.warn(
    "S3 tests are skipped: TEST_S3_ENDPOINT names no server (test/servers/ceph-start.sh starts one)",
  );
  return undefined;
}

/** A new bucket, as `s3://` location. */
export async function createBucket(
  environment: S3Environment & { AWS_ENDPOINT_URL_S3: string },
): Promise<string> {
  const bucket = `test-${randomBytes(6).toString("hex")}`;
  const client = new S3Client({
    region: "us-east-1",
    endpoint: environment.AWS_ENDPOINT_URL_S3,
    forcePathStyle: true,
  });
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  client.destroy();
  return `s3://${bucket}`;
}
