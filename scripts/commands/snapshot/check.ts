import { counted, exitCodes, requiredOption } from "../../cli.ts";
import { command } from "../../program.ts";
import { progressOn } from "../../progress.ts";
import { inspectSourcesAt, sourcesLocation } from "../../sources.ts";
import { withTemporaryFolder } from "../../temporary.ts";
import { common } from "./options.ts";
import { sourcesOption } from "./publish-run.ts";

export const checkCommand = command({
  name: "check",
  does: "says all that a publish would refuse in the sources, without a store",
  options: { sources: { ...sourcesOption, required: true }, json: common.json },
  async run({ sources, json = false }, _operand, shell) {
    const location = sourcesLocation(shell, requiredOption("sources", sources));
    const found = await withTemporaryFolder((folder) =>
      inspectSourcesAt(shell, location, folder, progressOn(shell.stderr)),
    );
    const { markets, scores, protocols } = found;
    const counts = [
      counted(markets, "market"),
      `${counted(scores, "score")} of ${counted(protocols, "protocol")}`,
    ];
    shell.report(json, found, [`${counts.join(" and ")}: nothing to refuse`]);
    return exitCodes.done;
  },
});
