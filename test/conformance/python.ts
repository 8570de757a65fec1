import { execFile } from "node:child_process";
import { delimiter, join } from "node:path";
import { findProgram } from "../helpers/servers/programs.ts";

export const python = findProgram("python3");

/** Lets a script import the client in Python, and the modules of this folder. */
export const pythonPath = {
  PYTHONPATH: [join(import.meta.dirname, "../../proxy/site/client"), import.meta.dirname].join(delimiter),
  PYTHONDONTWRITEBYTECODE: "1",
};

/** What a program prints that gets this on its input. */
export function ranProgram(program: string, args: readonly string[], input = ""): Promise<string> {
  const env = { ...process.env, ...pythonPath };
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, { env, maxBuffer: 2 ** 28 }, (error, said) =>
      error ? reject(error) : resolve(said),
    );
    child.stdin!.end(input);
  });
}

/** What a script prints as JSON, to which a value comes as JSON. */
export const inPython = async (script: string, value: unknown) =>
  JSON.parse(await ranProgram(python!, ["-c", script], JSON.stringify(value)));

/** A proof as JSON or tlog-proof, and whose it must be and who must have signed, where that is known. */
interface Asked {
  text: string;
  id?: string;
  key?: string;
}

/** What client.py says to each proof: the snapshot id, "" where it refuses, and "no key" where the key is none. */
export const pythonSays = (proofs: readonly Asked[]): Promise<string[]> => inPython(script, proofs);

// Ed25519 in Python takes long, and most of the proofs are changed elsewhere than in what is signed.
const script = `
import client, functools, json, sys
from tlog_proof import read
client.is_signed = functools.cache(client.is_signed)
def said(proof):
    try:
        answer = read(proof["text"])
        snapshot = answer["snapshotId"]
    except (ValueError, KeyError):
        return ""
    try:
        client.verify_proof(answer, proof.get("id"), client.Trust(proof.get("key")), snapshot)
        return snapshot
    except client.IntegrityError:
        return ""
    except client.ApiError:
        return "no key"
print(json.dumps([said(proof) for proof in json.load(sys.stdin)]))`;
