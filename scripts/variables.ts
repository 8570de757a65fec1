import { variables } from "../proxy/config.ts";

/** The proxy's environment variables, as text for a terminal. */
export function variablesHelp(): string {
  const lines = variables.map(
    ({ name, meaning, fixed, otherwise }) => `  ${name} (default: ${fixed ?? otherwise})\n      ${meaning}`,
  );
  return lines.join("\n");
}
