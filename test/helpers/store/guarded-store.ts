import { readFileSync } from "node:fs";
import { z } from "zod";
import { type Storage, StorageError } from "../../../snapshots/store/storage.ts";
import { aroundCalls, type StorageCall } from "./storages.ts";

const OneOrMore = z.union([z.string(), z.array(z.string())]).transform((value) => [value].flat());
const Policy = z.strictObject({
  Version: z.literal("2012-10-17"),
  Statement: z.array(
    z.strictObject({
      Sid: z.string().regex(/^[A-Za-z0-9]+$/),
      Effect: z.enum(["Allow", "Deny"]),
      Principal: z.unknown().optional(),
      Action: OneOrMore,
      Resource: OneOrMore.optional(),
      Condition: z.record(z.string(), z.record(z.string(), OneOrMore)).optional(),
    }),
  ),
});

/** The statements of a policy, with lists for single values. Throws ZodError for members that are not known here. */
export function statementsOf(name: string) {
  const file = new URL(`../../../.github/deploy/${name}.json`, import.meta.url);
  return Policy.parse(JSON.parse(readFileSync(file, "utf8"))).Statement;
}

/** What the role of each program may do. */
export const roles = {
  publisher: statementsOf("role-publisher"),
  gc: statementsOf("role-gc"),
  proxy: statementsOf("role-proxy"),
  "key-issuer": statementsOf("role-key-issuer"),
};
export type Role = keyof typeof roles;

/** The ARNs of objects of the store by the beginnings of their keys. */
export const under = (...prefixes: string[]) =>
  prefixes.map((prefix) => `arn:aws:s3:::STORE_BUCKET/${prefix}*`);

const fits = (pattern: string, text: string) =>
  pattern.endsWith("*") ? text.startsWith(pattern.slice(0, -1)) : text === pattern;

/** Whether the role's own policy, which only allows, lets it do that to an object of the store. */
export function allows(role: Role, action: "GetObject" | "PutObject" | "DeleteObject", key: string): boolean {
  return roles[role].some(
    ({ Action, Resource = [] }) =>
      Action.includes(`s3:${action}`) &&
      Resource.some((pattern) => fits(pattern, `arn:aws:s3:::STORE_BUCKET/${key}`)),
  );
}

/** Whether the role may list what begins so. */
export function lists(role: Role, prefix: string): boolean {
  return roles[role].some(
    ({ Action, Resource, Condition }) =>
      Action.includes("s3:ListBucket") &&
      Resource?.includes("arn:aws:s3:::STORE_BUCKET") &&
      (Condition?.StringLike?.["s3:prefix"] ?? ["*"]).some((pattern) => fits(pattern, prefix)),
  );
}

/** What the bucket's own policy lets nobody replace. */
const createdOnly = statementsOf("bucket-policy").find(({ Condition }) => Condition?.Null)?.Resource ?? [];

/** A store as a role sees it: what the policies do not allow is refused as S3 refuses it. */
export function guardedStorage(storage: Storage, role: Role): Storage {
  const mayReplace = (key: string) =>
    allows(role, "PutObject", key) &&
    !createdOnly.some((pattern) => fits(pattern, `arn:aws:s3:::STORE_BUCKET/${key}`));
  const may: Record<StorageCall["operation"], (key: string) => boolean> = {
    get: (key) => allows(role, "GetObject", key),
    put: mayReplace,
    putIfAbsent: (key) => allows(role, "PutObject", key),
    // S3 wants both rights of a caller that replaces what it has seen.
    replace: (key) => allows(role, "GetObject", key) && mayReplace(key),
    list: (prefix) => lists(role, prefix),
    delete: (key) => allows(role, "DeleteObject", key),
  };
  return aroundCalls(storage, async (work, { operation, key }) => {
    if (may[operation](key)) return work();
    throw new StorageError(`${storage.location}: cannot ${operation} ${key}: 403 AccessDenied for ${role}`);
  });
}
