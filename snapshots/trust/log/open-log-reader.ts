import { Fault } from "../../../schemas/errors.ts";
import { messageOf } from "../../store/errors.ts";
import type { Storage } from "../../store/storage.ts";
import { Trust } from "../trust.ts";
import { believedPolicy } from "../witnesses/policy.ts";
import { CheckpointFile } from "./checkpoint-file.ts";
import { type LogReader, readAnyLog, readSignedLog } from "./log-reader.ts";

/** Files that say whose log a reader believes, by the variables that name them. */
export interface TrustFiles {
  TRUST_POLICY?: string | undefined;
  TRUSTED_KEYS?: string | undefined;
  CHECKPOINT_FILE?: string | undefined;
}

/** Opens these files. `warn` is told what is missing, `refused` as readSignedLog says. */
export async function openLogReader(
  storage: Storage,
  { TRUST_POLICY: policyFile, TRUSTED_KEYS: keys, CHECKPOINT_FILE: path }: TrustFiles,
  { warn, refused }: { warn: (line: string) => void; refused: (error: Error) => void },
): Promise<LogReader> {
  const policy = await usable(policyFile ? "TRUST_POLICY" : "TRUSTED_KEYS", () =>
    believedPolicy({ policy: policyFile, keys }),
  );
  if (!policy && path)
    throw new Fault(
      "CONFIG",
      "CHECKPOINT_FILE needs TRUST_POLICY or TRUSTED_KEYS, which say whose checkpoints count",
    );
  if (!policy) return readAnyLog(storage);
  if (!path)
    warn("CHECKPOINT_FILE is not set; after this start an older commit may be replayed as the newest");
  const file = path ? await usable("CHECKPOINT_FILE", () => CheckpointFile.open(path)) : undefined;
  return readSignedLog(storage, new Trust(policy), { file, refused });
}

async function usable<T>(variable: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    throw new Fault("CONFIG", `${variable}: ${messageOf(error)}`, { cause: error });
  }
}
