import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalTarget } from "../../../proxy/routes/checks.ts";
import { type Endpoint, endpoints } from "../../../schemas/endpoints.ts";
import { addressOf } from "../../helpers/http/addresses.ts";

const id = "00000000-0000-4000-8000-000000000007";
describe("canonicalTarget(raw)", () => {
  const nowhere = /^(\/api\/v1)?\/-(\/slash)?$/;

  test("leaves the path of every row of the endpoint table as it is", () => {
    for (const endpoint of Object.values<Endpoint>(endpoints)) {
      const target = addressOf(endpoint, "curve.fi");
      for (const raw of [target, `${target}?`, `${target}?a=b?c&%zz`]) expect(canonicalTarget(raw)).toBe(raw);
    }
  });

  test("never throws, and what it leaves is spelled as the table spells it", () => {
    const exported = ["exports", "0".repeat(64), "markets-0001.parquet"];
    const pieces = [
      ...exported,
      ...["api", "v1", "scores", "markets", "historical", "batch", "status", "healthz", "aave"],
    ];
    const odd = [
      id,
      id.toUpperCase(),
      ...["proof", "/", "//", "%2f", "\\", ".", "..", "?", "#", ";", "%00", "\u0000", ":slug"],
    ];
    const target = fc.array(fc.oneof(fc.constantFrom(...pieces, ...odd, "/"), fc.string({ maxLength: 3 })));
    const written = Object.values<Endpoint>(endpoints).map(({ path, files }) => {
      const file = (files ?? []).map((name) => name.replaceAll(".", "\\.")).join("|");
      const slug = "(?!\\.{1,2}(/|$))[^/\\\\%#?]+";
      const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
      return path
        .replace(":slug", slug)
        .replace(":id", uuid)
        .replace(":snapshotId", "[0-9a-f]{64}")
        .replace(":name", "markets-[0-9]{4,}\\.parquet")
        .replace(
          "*logFile",
          "(checkpoint(s/[1-9]\\d{0,9})?|tile/(entries|\\d)/(x\\d{3}/){0,2}\\d{3}(\\.p/[1-9]\\d{0,2})?)",
        )
        .replace(":file", `(${file})`);
    });
    const table = new RegExp(`^(${written.join("|")})(\\?.*)?$`, "s");
    fc.assert(
      fc.property(
        target.map((parts) => `/${parts.join("")}`),
        (raw) => {
          const found = canonicalTarget(raw);
          if (found === raw && !nowhere.test(raw)) expect(raw).toMatch(table);
          else expect(found).toMatch(nowhere);
        },
      ),
      { numRuns: 5000 },
    );
  });
});
