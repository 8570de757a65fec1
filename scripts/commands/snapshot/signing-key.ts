import { writeSigningKey } from "../../../snapshots/trust/notes/key-files.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { requiredOption, usageError } from "../../cli.ts";
import { command } from "../../program.ts";
import { defaultSigningName, signingName } from "../../signing.ts";
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
