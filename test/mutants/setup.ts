import fc from "fast-check";
import { afterEach, beforeEach } from "vitest";

declare const __testBegins: () => void;
declare const __testEnds: (id: string, passed: boolean) => void;

// A counterexample need not be the smallest.
fc.configureGlobal({ endOnFailure: true });

beforeEach(() => __testBegins());
afterEach(({ task }) => __testEnds(task.id, task.result?.state !== "fail"));
