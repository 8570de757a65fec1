import type { Endpoint } from "../../../schemas/endpoints.ts";

/** An address of an endpoint: its path with the variables filled in. */
export function addressOf({ path, files = [""] }: Pick<Endpoint, "path" | "files">, slug: string): string {
  return path
    .replace(":slug", slug)
    .replace(":id", "00000000-0000-4000-8000-000000000007")
    .replace(":hash", "0".repeat(64))
    .replace(":changes", "0".repeat(64))
    .replace(":snapshotId", "0".repeat(64))
    .replace(":name", "markets-0001.parquet")
    .replace("*logFile", "tile/0/000.p/1")
    .replace(":file", files[0]!);
}
