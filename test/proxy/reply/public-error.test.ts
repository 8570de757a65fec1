import { describe, expect, test } from "vitest";
import { problemReply, publicError } from "../../../proxy/reply/problem.ts";
import { errorCodes } from "../../../schemas/envelopes.ts";
import { Fault } from "../../../schemas/errors.ts";
import { invalidCursor } from "../../../snapshots/read/archive/paging.ts";
import { noSnapshot } from "../../../snapshots/read/catalog/catalog.ts";
import { damagedLog } from "../../../snapshots/read/catalog/commit-log.ts";
import { invalidParameter } from "../../../snapshots/read/parameters.ts";
import { CorruptObjectError, MissingObjectError } from "../../../snapshots/store/errors.ts";
import { StorageError } from "../../../snapshots/store/storage.ts";

const cursor = { parameter: "cursor" };
const nearest = {
  before: null,
  after: { snapshotId: "0".repeat(64), publishedAt: "2030-01-01T00:00:00.000Z" },
};
const expired = (told: { resumeCursor?: string | null; nearest?: typeof nearest }) =>
  new Fault("CURSOR_EXPIRED", "text", { ...cursor, ...told });

describe("an error of snapshots/ as a problem", () => {
  test.each([
    [invalidParameter("page", "text"), "INVALID_PARAMETER", { parameter: "page", detail: "text" }],
    [invalidCursor(), "INVALID_CURSOR", { ...cursor, detail: /^The cursor is not one this service/ }],
    [expired({ resumeCursor: "c" }), "CURSOR_EXPIRED", { ...cursor, resumeCursor: "c", detail: "text" }],
    [expired({ resumeCursor: null }), "CURSOR_EXPIRED", { ...cursor, resumeCursor: null, detail: "text" }],
    [expired({}), "CURSOR_EXPIRED", { ...cursor, detail: "text" }],
    [expired({ nearest }), "CURSOR_EXPIRED", { ...cursor, nearest, detail: "text" }],
    [new Fault("VERSION_NOT_FOUND", "text"), "VERSION_NOT_FOUND", { detail: "text" }],
    [noSnapshot(), "SNAPSHOT_UNAVAILABLE", { detail: /^No snapshot is loaded yet/ }],
    [damagedLog("2030", new Error("secret")), "SNAPSHOT_UNAVAILABLE", { detail: /before 2030 is damaged/ }],
    [new StorageError("secret"), "SNAPSHOT_UNAVAILABLE", { detail: /^The archive cannot be read/ }],
    [new CorruptObjectError("secret", ""), "SNAPSHOT_UNAVAILABLE", { detail: /^The archive cannot be read/ }],
    [new MissingObjectError("secret"), "SNAPSHOT_UNAVAILABLE", { detail: /^The archive cannot be read/ }],
    [new TypeError("secret"), "INTERNAL", { detail: /^Something went wrong on our side/ }],
    ["secret", "INTERNAL", { detail: /^Something went wrong on our side/ }],
  ])("%s is %s", (thrown, code, { detail, ...members }) => {
    const problem = JSON.parse(problemReply(publicError(thrown), "id").body.toString());
    const { type: _type, title: _title, status: _status, ...rest } = problem;
    const told = typeof detail === "string" ? detail : expect.stringMatching(detail);
    expect(rest).toEqual({ code, requestId: "id", detail: told, ...members });
    expect(JSON.stringify(problem)).not.toContain("secret");
  });

  test("keeps what failed as its cause, for the log", () => {
    const failure = new StorageError("why");
    expect(publicError(failure).cause).toBe(failure);
    const own = new Fault("NOT_FOUND", "text");
    expect(publicError(own)).toBe(own);
  });
});

test("every 429 and every 503 says when to try again", () => {
  for (const code of errorCodes) {
    const { status, headers } = problemReply(new Fault(code, "text"), "id");
    expect([code, headers["Retry-After"]]).toEqual([code, [429, 503].includes(status) ? 5 : undefined]);
  }
});
