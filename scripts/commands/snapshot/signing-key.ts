import { updateLog } from "../../../snapshots/publish/public/log.ts";
import { PublicTree } from "../../../snapshots/publish/public/tree.ts";
import { readRunLog } from "../../../snapshots/trust/log/believe.ts";
import { verifierText, writeSigningKey } from "../../../snapshots/trust/notes/note-keys.ts";
import { requiredOption, usageError } from "../../cli.ts";
import { command } from "../../program.ts";
import { defaultSigningName, readSigning, signingName, trustOptions } from "../../signing.ts";
import { openStore } from "../../store.ts";
import { describeWitnesses } from "./list.ts";
import { common } from "./options.ts";

export const signingKeyCommand = command({
  name: "signing-key",
  does: "makes a key pair with which publishers sign commits; an existing file is never replaced",
  options: {
    out: {
      type: "string",
      value: "FILE",
      required: true,
      does: "the private key; the public one is FILE.pub",
    },
    name: {
      type: "string",
      value: "NAME",
      does: "the origin of the log that the key signs, best an address of yours (or SIGNING_NAME)",
      otherwise: defaultSigningName,
    },
    algorithm: {
      type: "string",
      value: "NAME",
      does: "ed25519, or ml-dsa-44 for a second key that quantum computers do not break; it needs Node 24",
      otherwise: "ed25519",
    },
    json: common.json,
  },
  async run(values, _operand, shell) {
    const path = shell.path(requiredOption("out", values.out));
    const name = signingName(shell, values.name) ?? defaultSigningName;
    const { algorithm = "ed25519" } = values;
    if (algorithm !== "ed25519" && algorithm !== "ml-dsa-44")
      throw usageError(`--algorithm is ed25519 or ml-dsa-44, not ${JSON.stringify(algorithm)}`);
    const publicKey = verifierText(await writeSigningKey(path, name, algorithm));
    const use = algorithm === "ed25519" ? "SIGNING_KEY" : "a second line of the file SIGNING_KEY";
    shell.say(`${path} signs, so keep it secret (${use}); ${path}.pub is for everybody (TRUSTED_KEYS):`);
    shell.report(values.json ?? false, { name, publicKey, files: { private: path, public: `${path}.pub` } }, [
      publicKey,
    ]);
  },
});

export const witnessCommand = command({
  name: "witness",
  does: "asks the witnesses of WITNESS_POLICY again that have not cosigned the newest checkpoint",
  options: { ...common, ...trustOptions },
  async run(values, _operand, shell) {
    const signing = await readSigning(shell, values);
    if (!signing.key || !signing.witnesses)
      throw usageError("witness goes with SIGNING_KEY and WITNESS_POLICY, the files of a publisher");
    const storage = await openStore(shell, values.store);
    const log = await readRunLog(storage, signing);
    const { newest } = log;
    const tree = await PublicTree.of(log.storage);
    const witnessed = newest ? await updateLog(storage, tree, newest, signing, log) : [];
    shell.report(values.json ?? false, { commit: newest?.entry.commit ?? 0, witnessed }, [
      newest
        ? `Commit ${newest.entry.commit}, snapshot ${newest.entry.snapshotId}`
        : `${storage.location} holds no commit yet`,
      ...describeWitnesses(witnessed),
    ]);
  },
});
