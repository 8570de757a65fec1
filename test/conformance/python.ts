import { execFileSync } from "node:child_process";
import { delimiter, join } from "node:path";
import { findProgram } from "../helpers/servers/programs.ts";

/** Lets a script import the client in Python, and the modules of this folder. */
export const pythonPath = {
  PYTHONPATH: [join(import.meta.dirname, "../../proxy/site/client"), import.meta.dirname].join(delimiter),
  PYTHONDONTWRITEBYTECODE: "1",
};

export const python = findProgram("python3");

/** A proof as JSON or tlog-proof, and whose it must be and who must have signed, where that is known. */
interface Asked {
  text: string;
  id?: string;
  key?: string;
}

/** What client.py says to each proof: the snapshot id, "" where it refuses, and "no key" where the key is none. */
export function pythonSays(proofs: readonly Asked[]): string[] {
  const env = { ...process.env, ...pythonPath };
  const input = JSON.stringify(proofs);
  const said = execFileSync(python!, ["-c", script], { input, env, encoding: "utf8", maxBuffer: 2 ** 26 });
  return said.split("\n").slice(0, -1);
}

// Ed25519 in Python takes long, and most of the proofs are changed elsewhere than in what is signed.
const script = `
import client, functools, json, sys
from tlog_proof import read
client.is_signed = functools.cache(client.is_signed)
for proof in json.load(sys.stdin):
    try:
        answer = read(proof["text"])
        snapshot = answer["snapshotId"]
    except (ValueError, KeyError):
        print()
        continue
    try:
        client.verify_proof(answer, proof.get("id"), client.Trust(proof.get("key")), snapshot)
        print(snapshot)
    except client.IntegrityError:
        print()
    except client.ApiError:
        print("no key")`;
