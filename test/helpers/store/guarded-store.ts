import { type Storage, StorageError } from "../../../snapshots/store/storage.ts";
import { type Caller, isAllowed, type Policy, readPolicy } from "./iam.ts";

/** The names that the policies are filled in with: those of an account that does not exist. */
export const names = {
  STORE_BUCKET: "prs-store",
  SOURCES_BUCKET: "prs-sources",
  ACCOUNT_ID: "111122223333",
  DISTRIBUTION_ID: "E2EXAMPLE",
  GITHUB_REPOSITORY: "example/protocol-risk-score",
};
const policyFile = (name: string) =>
  readPolicy(new URL(`../../../.github/deploy/${name}.json`, import.meta.url), names);

/** The project's policies. */
export const policies = {
  bucket: policyFile("bucket-policy"),
  roles: {
    publisher: policyFile("role-publisher"),
    gc: policyFile("role-gc"),
    proxy: policyFile("role-proxy"),
    "key-issuer": policyFile("role-key-issuer"),
  },
  trust: {
    publisher: policyFile("trust-publisher"),
    gc: policyFile("trust-gc"),
    proxy: policyFile("trust-proxy"),
  },
};
export type Role = keyof typeof policies.roles;

const actions = {
  get: "s3:GetObject",
  put: "s3:PutObject",
  putIfAbsent: "s3:PutObject",
  replace: "s3:PutObject",
  list: "s3:ListBucket",
  delete: "s3:DeleteObject",
} as const;

/** One request to S3, in the words of the storage interface or in those of S3; `plain` is one without TLS. */
export interface StoreRequest {
  operation: keyof typeof actions | `s3:${string}`;
  /** An object's key, the prefix of a listing, or "" for the bucket itself. */
  key: string;
  /** Default: the store's. */
  bucket?: string;
  plain?: boolean;
}

/** Whether S3 would let a caller do that; `identity` is the policy of the caller's own role. */
export function mayDo(
  caller: Caller,
  identity: Policy | undefined,
  { operation, key, bucket = names.STORE_BUCKET, plain = false }: StoreRequest,
  circumstances: Record<string, string> = {},
): boolean {
  const arn = `arn:aws:s3:::${bucket}`;
  return isAllowed(
    { identity, resource: policies.bucket },
    {
      caller,
      action: operation in actions ? actions[operation as keyof typeof actions] : operation,
      resource: operation === "list" || key === "" ? arn : `${arn}/${key}`,
      context: {
        "aws:SecureTransport": String(!plain),
        ...(operation === "list" && { "s3:prefix": key }),
        ...(operation === "putIfAbsent" && { "s3:if-none-match": "*" }),
        ...circumstances,
      },
    },
  );
}

/** Callers of S3 other than the roles. */
export const callers = {
  role: (name: string): Caller => ({
    kind: "AWS",
    name: `arn:aws:iam::${names.ACCOUNT_ID}:role/prs-${name}`,
  }),
  cdn: { kind: "Service", name: "cloudfront.amazonaws.com" },
  anyone: { kind: "anonymous" },
} as const satisfies Record<string, Caller | ((name: string) => Caller)>;

/** What CloudFront adds to a request for a distribution. */
export function distribution(id = names.DISTRIBUTION_ID): Record<string, string> {
  return { "aws:SourceArn": `arn:aws:cloudfront::${names.ACCOUNT_ID}:distribution/${id}` };
}

/** A store as a role sees it: what the policies do not allow is refused as S3 refuses it. */
export function guardedStorage(storage: Storage, role: Role): Storage {
  const check = (operation: StoreRequest["operation"], key: string) => {
    if (mayDo(callers.role(role), policies.roles[role], { operation, key })) return;
    throw new StorageError(`${storage.location}: cannot ${operation} ${key}: 403 AccessDenied for ${role}`);
  };
  return {
    location: storage.location,
    async get(key, options) {
      check("get", key);
      return storage.get(key, options);
    },
    async put(key, body) {
      check("put", key);
      return storage.put(key, body);
    },
    async putIfAbsent(key, body) {
      check("putIfAbsent", key);
      return storage.putIfAbsent(key, body);
    },
    async replace(key, body, tag) {
      // S3 wants both rights of a caller that replaces what it has seen.
      check("get", key);
      check("replace", key);
      return storage.replace(key, body, tag);
    },
    async *list(prefix) {
      check("list", prefix);
      yield* storage.list(prefix);
    },
    async delete(key) {
      check("delete", key);
      return storage.delete(key);
    },
  };
}
