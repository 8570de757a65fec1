import { delimiter, join } from "node:path";

/** Lets a script import the client in Python, and the modules of this folder. */
export const pythonPath = {
  PYTHONPATH: [join(import.meta.dirname, "../../proxy/site/client"), import.meta.dirname].join(delimiter),
  PYTHONDONTWRITEBYTECODE: "1",
};
