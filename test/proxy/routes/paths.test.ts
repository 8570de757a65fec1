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

  const snapshot = "0a".repeat(32);
  const name = "markets-0001.parquet";
  const pathsOf: [what: string, of: string, taken: string[], others: string[]][] = [
    [
      "any single segment for a slug, but no dot segment and no other spelling",
      "/api/v1/scores/",
      ["AAVE", "a;b", "a+b", "...", "..a", "~", "é", "__proto__", ":slug", "batch"],
      ["", ".", "..", "%61", "a%", "a\\b", "a#b", "a/b", "a/"],
    ],
    [
      "nothing but a UUID in lower case for the id of a market",
      "/api/v1/markets/",
      [id, `${id}/proof`],
      [
        ...["x", "historica", "proof", id.slice(1), `${id}0`, id.replace("0", "A"), id.replaceAll("-", "")],
        ...[`${id}/`, `${id}/proofs`, `{${id}}`, `%30${id.slice(1)}`],
      ],
    ],
    [
      "nothing but a snapshot and a name for a file of an export",
      "/api/v1/markets/exports/",
      [`${snapshot}/${name}`, `${snapshot}/markets-12345.parquet`],
      [
        ...["", snapshot, `${snapshot}/`, name, `${snapshot}/${name}/`, `${snapshot.toUpperCase()}/${name}`],
        ...[`${snapshot}0/${name}`, `${snapshot}/../${name}`, `${snapshot}/${name}x`],
        ...["markets-1.parquet", "markets-0001xparquet", "x.parquet", `%6d${name.slice(1)}`].map(
          (other) => `${snapshot}/${other}`,
        ),
      ],
    ],
  ];
  test.each(pathsOf)("takes %s", (_what, of, taken, others) => {
    for (const each of taken) expect(canonicalTarget(of + each)).toBe(of + each);
    for (const each of others) expect(canonicalTarget(of + each), each).toMatch(nowhere);
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
