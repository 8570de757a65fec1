import type { Program } from "../program.ts";
import { checkCommand } from "./snapshot/check.ts";
import { contractCommand } from "./snapshot/contract.ts";
import { diffCommand } from "./snapshot/diff.ts";
import { exportCommand } from "./snapshot/export.ts";
import { gcCommand } from "./snapshot/gc.ts";
import { listCommand } from "./snapshot/list.ts";
import { publishCommand } from "./snapshot/publish.ts";
import { rollbackCommand } from "./snapshot/rollback.ts";
import { signingKeyCommand } from "./snapshot/signing-key.ts";
import { verifyCommand } from "./snapshot/verify.ts";
import { witnessCommand } from "./snapshot/witness.ts";

/** `npm run snapshot` */
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
