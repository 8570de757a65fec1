// Evaluates queries over sections of the index.
export * from "../../../snapshots/read/evaluator.ts";
