import { join } from "node:path";
import { expect, test } from "vitest";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { withBroken, writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { findDagster, playDagster } from "../helpers/servers/dagster.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const dagster = findDagster();
const PRS_HOME = new URL("../..", import.meta.url).pathname;

test.skipIf(!dagster)(
  "publish_parts_dagster.py tells rows, root and refusals of what it publishes",
  async () => {
    const sound = await writeSegmented(folder, "sources");
    const broken = await writeSegmented(folder, "broken", withBroken("composite", "9"));
    const alone = ["publish", "--sources", sound, "--store", "alone", "--json"];
    const { snapshotId } = JSON.parse((await snapshotCommand(alone, { from: folder })).stdout);
    const of = (SOURCES: string) => ({ SOURCES, STORE: join(folder, `store-${SOURCES === sound}`) });
    const runs = [of(sound), of(broken)];
    const [made, refused] = await playDagster(dagster!, runs, { PRS_HOME, PARTS: "2" });
    expect(made!.success).toBe(true);
    expect(made!.told.map(({ step }) => step)).toEqual(["plan", "plan", "part[1]", "part[2]", "join"]);
    const rows = made!.told.slice(2, 4).map(({ metadata }) => Number(metadata.markets));
    expect(rows.reduce((sum, of) => sum + of)).toBe(300);
    expect(made!.told.at(-1)!.metadata).toMatchObject({ outcome: "published", snapshotId });
    expect(refused!.told.at(-1)).toMatchObject({
      step: "join",
      kind: "STEP_FAILURE",
      metadata: {
        exitCode: 3,
        refusals: expect.arrayContaining([expect.objectContaining({ column: "composite" })]),
      },
    });
  },
);
