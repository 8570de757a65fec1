// Fails when the newest publish run is too old:
// node .ci/freshness.mjs STATUS_URL MAX_AGE_SECONDS [TRIES] [PAUSE_SECONDS]
// STATUS_URL is /api/v1/status of the deployed proxy. The age is measured by this machine's clock as well, because the
// proxy's clock may be wrong, or its STALE_AFTER_SECONDS too long.
import { setTimeout as pause } from "node:timers/promises";

const [url, maxAge, tries = "3", pauseSeconds = "20"] = process.argv.slice(2);
const requestSeconds = 20;
if (!URL.canParse(url) || !/^[1-9][0-9]*$/.test(maxAge ?? "")) {
  console.error("Usage: node .ci/freshness.mjs STATUS_URL MAX_AGE_SECONDS [TRIES] [PAUSE_SECONDS]");
  process.exit(2);
}

let fault;
for (let attempt = 1; attempt <= Number(tries); attempt += 1) {
  // A single lost packet must not raise the alarm.
  if (attempt > 1) await pause(Number(pauseSeconds) * 1000);
  fault = await findFault();
  if (!fault) break;
}
if (fault) console.log(`::error title=The service is not fresh::${fault}`);
process.exitCode = fault ? 1 : 0;

/** What is wrong with the service, for people; undefined when it is fresh. Never throws. */
async function findFault() {
  try {
    const response = await fetch(url, {
      signal: AbortSignal.timeout(requestSeconds * 1000),
      redirect: "error",
    });
    if (response.status !== 200) return `the status page answers ${response.status}`;
    const { checkedAt, stale } = await response.json();
    const age = Math.round((Date.now() - Date.parse(checkedAt)) / 1000);
    // An unreadable time gives NaN, which compares as false, and so is a fault too.
    if (!(age <= Number(maxAge)))
      return `the newest publish run was at ${checkedAt}, ${age} s ago; the limit is ${maxAge} s`;
    if (stale !== false) return "the proxy calls its snapshot stale";
    console.log(`fresh: the newest publish run was ${age} s ago`);
    return undefined;
  } catch (error) {
    return `the status page cannot be read: ${error.cause?.message ?? error.message}`;
  }
}
