import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { fromEnvironment } from "./programs.ts";

/** A Python that has Dagster, or undefined where none is installed. */
export const findDagster = () => fromEnvironment("TEST_DAGSTER_PYTHON", "Dagster", "engines-install.sh");

/** How a job of Dagster ended: what its steps told with their outputs and failures, in order. */
export interface Ended {
  success: boolean;
  told: { step: string; kind: "STEP_OUTPUT" | "STEP_FAILURE"; metadata: Record<string, unknown> }[];
}

/** Plays the job of publish_parts_dagster.py once with each of these environments, in one process of Python. */
export async function playDagster(
  python: string,
  environments: readonly object[],
  env = {},
): Promise<Ended[]> {
  const folder = new URL("../../../.github/deploy", import.meta.url).pathname;
  const options = { env: { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: "1", ...env } };
  const given = ["-c", program, JSON.stringify(environments)];
  const { stdout } = await promisify(execFile)(python, given, { ...options, maxBuffer: 64 * 1024 * 1024 });
  return JSON.parse(stdout);
}

const program = `
import json, os, sys
from publish_parts_dagster import publish_in_parts

def told(event):
    data = event.event_specific_data
    failed = event.event_type_value == "STEP_FAILURE"
    metadata = (data.user_failure_data and data.user_failure_data.metadata or {}) if failed else data.metadata
    return {
        "step": event.step_key,
        "kind": event.event_type_value,
        "metadata": {name: value.value for name, value in metadata.items()},
    }

ends = []
for environment in json.loads(sys.argv[1]):
    os.environ.update(environment)
    ended = publish_in_parts.execute_in_process(raise_on_error=False)
    events = [e for e in ended.all_events if e.event_type_value in ("STEP_OUTPUT", "STEP_FAILURE")]
    ends.append({"success": ended.success, "told": [told(event) for event in events]})
print(json.dumps(ends))
`;
