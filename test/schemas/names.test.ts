import { expect, test } from "vitest";
import { ago } from "../../schemas/names.ts";

test.each([
  ["2026-11-25T12:00:00.001Z", "less than an hour ago"],
  ["2026-11-25T11:00:00.001Z", "less than an hour ago"],
  ["2026-11-25T11:00:00.000Z", "1 hour ago"],
  ["2026-11-24T12:00:00.001Z", "23 hours ago"],
  ["2026-11-24T12:00:00.000Z", "1 day ago"],
  ["2026-10-26T12:00:00.001Z", "29 days ago"],
  ["2026-10-26T12:00:00.000Z", "1 month ago"],
  ["2025-12-30T06:02:58.662Z", "11 months ago"],
  ["2025-11-25T12:00:00.000Z", "1 year ago"],
])("at noon of the 25th of November 2026, %s is told as %s", (iso, told) => {
  expect(ago(iso, Date.parse("2026-11-25T12:00:00.000Z"))).toBe(told);
});
