import { type Program, runAsScript } from "./program.ts";
import { checkCommand, contractCommand, diffCommand, listCommand } from "./snapshot/inspect.ts";
import {
  exportCommand,
  gcCommand,
  rollbackCommand,
  signingKeyCommand,
  verifyCommand,
  witnessCommand,
} from "./snapshot/maintain.ts";
import { publishCommand } from "./snapshot/publish.ts";

export const snapshotProgram: Program = {
  call: "npm run snapshot --",
  commands: [
    contractCommand,
    checkCommand,
    publishCommand,
    verifyCommand,
    listCommand,
    diffCommand,
    rollbackCommand,
    exportCommand,
    signingKeyCommand,
    witnessCommand,
    gcCommand,
  ],
  notes: `SOURCES and STORE are a directory or s3://bucket/prefix each. SOURCES may be a DuckDB script instead, FILE.sql, that
leaves the tables or views markets and protocol_scores. It runs with your rights: use your own alone.
With a private key in the file SIGNING_KEY a run signs, WITNESS_POLICY names the file of a policy (c2sp.org/tlog-policy) whose
witnesses it asks to cosign, and CHECKPOINT_FILE one in which it keeps what it signed, outside the store.`,
};

await runAsScript(snapshotProgram, import.meta.filename);
