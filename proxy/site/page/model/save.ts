import { useState } from "preact/hooks";

function download(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/**
 * Saves files that are made on demand. `saving` is the name of the file in the making, `problem` the reason why there
 * is none.
 */
export function useSaving() {
  const [problem, setProblem] = useState<unknown>();
  const [saving, setSaving] = useState("");
  const save = async (name: string, make: () => Blob | Promise<Blob>) => {
    setSaving(name);
    setProblem(undefined);
    try {
      download(await make(), name);
    } catch (error) {
      setProblem(error);
    }
    setSaving("");
  };
  return { problem, saving, save };
}
