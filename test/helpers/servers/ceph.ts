import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { CreateBucketCommand, PutBucketPolicyCommand, S3Client } from "@aws-sdk/client-s3";
import type { S3Environment } from "../../../snapshots/store/backends/s3.ts";
import { fromEnvironment } from "./programs.ts";

/** An S3 server for tests. */
type TestServer = S3Environment & { AWS_ENDPOINT_URL_S3: string };

/** The environment of a running S3 server for tests, or undefined; `.ci/run` starts one and sets it. */
export function s3Environment(): TestServer | undefined {
  const endpoint = fromEnvironment("TEST_S3_ENDPOINT", "S3", "ceph-start.sh");
  return endpoint === undefined ? undefined : { AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: "us-east-1" };
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
