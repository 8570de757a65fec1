import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  CreateBucketCommand,
  DeleteBucketPolicyCommand,
  PutBucketPolicyCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import type { S3Environment } from "../../../snapshots/store/backends/s3.ts";

/** An S3 server for tests. */
type TestServer = S3Environment & { AWS_ENDPOINT_URL_S3: string };

/** The environment of a running S3 server for tests, or undefined; `.ci/run` starts one and sets it. */
export function s3Environment(): TestServer | undefined {
  const { TEST_S3_ENDPOINT } = process.env;
  if (TEST_S3_ENDPOINT) return { AWS_ENDPOINT_URL_S3: TEST_S3_ENDPOINT, AWS_REGION: "us-east-1" };
  if (process.env.CI) throw new Error("CI runs the S3 tests too: TEST_S3_ENDPOINT must name a server");
  console.warn(
    "S3 tests are skipped: TEST_S3_ENDPOINT names no server (test/servers/ceph-start.sh starts one)",
  );
  return undefined;
}

/** A new bucket, as `s3://` location. */
export async function createBucket(environment: TestServer): Promise<string> {
  const bucket = `test-${randomBytes(6).toString("hex")}`;
  await withClient(environment, (client) => client.send(new CreateBucketCommand({ Bucket: bucket })));
  return `s3://${bucket}`;
}

/** Puts the CDN's part of the bucket policy into Ceph, which knows no CloudFront: whoever asks is the CDN. */
export async function letCdnRead(environment: TestServer, location: string): Promise<void> {
  const bucket = location.slice("s3://".length);
  const file = new URL("../../../.github/deploy/bucket-policy.json", import.meta.url);
  const policy = JSON.parse(readFileSync(file, "utf8").replaceAll("STORE_BUCKET", bucket));
  const { Condition: _, ...statement } = policy.Statement.find(
    ({ Sid }: { Sid: string }) => Sid === "CdnReadsThePublicTree",
  );
  const open = { ...policy, Statement: [{ ...statement, Principal: "*" }] };
  const command = new PutBucketPolicyCommand({ Bucket: bucket, Policy: JSON.stringify(open) });
  await withClient(environment, (client) => client.send(command));
}

/** Removes the policy, so that only the owner can read. */
export async function letNobodyRead(environment: TestServer, location: string): Promise<void> {
  const command = new DeleteBucketPolicyCommand({ Bucket: location.slice("s3://".length) });
  await withClient(environment, (client) => client.send(command));
}

/** Calls `work` with a client of the server, and closes the client. */
export async function withClient<T>(
  { AWS_ENDPOINT_URL_S3: endpoint }: TestServer,
  work: (client: S3Client) => Promise<T>,
): Promise<T> {
  const client = new S3Client({ region: "us-east-1", endpoint, forcePathStyle: true });
  try {
    return await work(client);
  } finally {
    client.destroy();
  }
}
