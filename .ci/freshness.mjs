// Fails when the service is not fresh: node .ci/freshness.mjs STATUS_URL MAX_AGE_SECONDS [TRIES] [PAUSE_SECONDS]
// STATUS_URL is the deployed proxy's /api/v1/status. The age is also measured by this machine's clock, so that neither a stopped
// cron nor a proxy with a wrong clock or a lenient STALE_AFTER_SECONDS goes unnoticed.
import { setTimeout as pause } from "node:timers/promises";

const [url, maxAge, tries = "3", pauseSeconds = "20"] = process.argv.slice(2);
const requestSeconds = 20;
if (!URL.canParse(url) || !/^[1-9][0-9]*$/.test(maxAge ?? "")) {
  console.error("Usage: node .ci/freshness.mjs STATUS_URL MAX_AGE_SECONDS [TRIES] [PAUSE_SECONDS]");
  process.exit(2);
}

let fault;
for (let attempt = 1; attempt <= Number(tries); attempt += 1) {
  // One lost packet is no alarm.
  if (attempt > 1) await pause(Number(pauseSeconds) * 1000);
  fault = await findFault();
  if (!fault) break;
}
if (fault) console.log(`::error title=The service is not fresh::${fault}`);
process.exitCode = fault ? 1 : 0;

/** What is wrong, or undefined. */
async function findFault() {
  try {
    const response = await fetch(url, {
      signal: AbortSignal.timeout(requestSeconds * 1000),
      redirect: "error",
    });
    if (response.status !== 200) return `the status page answers ${response.status}`;
    const { checkedAt, stale } = await response.json();
    const age = Math.round((Date.now() - Date.parse(checkedAt)) / 1000);
    // NaN compares as false, so an unreadable time is a fault too.
    if (!(age <= Number(maxAge)))
      return `the newest publish run was at ${checkedAt}, ${age} s ago; the limit is ${maxAge} s`;
    if (stale !== false) return "the proxy calls its snapshot stale";
    console.log(`fresh: the newest publish run was ${age} s ago`);
    return undefined;
  } catch (error) {
    return `the status page cannot be read: ${error.cause?.message ?? error.message}`;
  }
}
