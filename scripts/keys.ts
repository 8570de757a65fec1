import { KeyId, type KeyRecord, type KeyRevocation } from "../schemas/keys.ts";
import { KeyPlan, plans } from "../schemas/plans.ts";
import { issueKey, readKeys, revokeKey } from "../snapshots/keys/records.ts";
import {
  commandName,
  type ExitCode,
  exitCodes,
  integerOption,
  openStore,
  readCommand,
  report,
  requiredOption,
  runCommand,
  say,
  UsageError,
} from "./cli.ts";

const usage = `Usage:
  npm run keys -- issue --plan developer|aegis --owner NAME [--quota N] [--expires DATE] --store STORE [--json]
  npm run keys -- list --store STORE [--json]
  npm run keys -- revoke ID [--at TIME] --store STORE [--json]

issue prints the key once; the store keeps only its SHA-256. Keys of one owner and plan share a daily counter.
To rotate a key, issue a second one, then revoke the first --at a time ahead.
  --quota N       requests per UTC day, instead of the plan's
  --expires DATE  the last day, YYYY-MM-DD (UTC), or the moment, YYYY-MM-DDThh:mm:ssZ
  --at TIME       when the key ends, a day's begin or a moment; now if left out`;

const text = { type: "string" } as const;
const common = { store: text, json: { type: "boolean" } } as const;
const dayMilliseconds = 86_400_000;

await runCommand(usage, async () => {
  // Each command reads its own options, so that one of another command is an error and not ignored.
  const name = commandName();
  if (name === "issue") return issue();
  if (name === "list") return list();
  if (name === "revoke") return revoke();
  throw new UsageError("the command must be one of issue, list, revoke");
});

async function issue(): Promise<ExitCode> {
  const options = { ...common, plan: text, owner: text, quota: text, expires: text };
  const { values } = readCommand("issue", options, 0);
  const plan = KeyPlan.safeParse(requiredOption("plan", values.plan));
  if (!plan.success) throw new UsageError(`--plan must be one of ${KeyPlan.options.join(", ")}`);
  const owner = requiredOption("owner", values.owner);
  if (owner.length > 200) throw new UsageError("--owner must have at most 200 characters");
  const otherwise = plans[plan.data].dailyQuota;
  const quota = values.quota ? integerOption("quota", values.quota, { min: 1, otherwise }) : undefined;
  const now = new Date();
  const expiresAt = values.expires ? moment("expires", values.expires, dayMilliseconds) : undefined;
  if (expiresAt && expiresAt <= now) throw new UsageError("--expires lies in the past");

  const storage = openStore(values.store);
  const { key, record } = await issueKey(storage, { plan: plan.data, owner, quota, expiresAt }, now);
  say(`${describe(record, undefined)}\nThe key is shown this once:`);
  report(values.json ?? false, { key, ...shown(record, undefined) }, [key]);
  return exitCodes.done;
}

async function list(): Promise<ExitCode> {
  const { values } = readCommand("list", common, 0);
  const { records, revocations, damaged } = await readKeys(openStore(values.store));
  for (const error of damaged) say(`damaged: ${error.message}`);
  const keys = records.map((record) => shown(record, revocations.get(record.id)));
  const lines = records.map((record) => describe(record, revocations.get(record.id)));
  report(values.json ?? false, { keys, damaged: damaged.map((error) => error.key) }, lines);
  return damaged.length > 0 ? exitCodes.unexpected : exitCodes.done;
}

async function revoke(): Promise<ExitCode> {
  const { values, operand } = readCommand("revoke", { ...common, at: text }, 1);
  const id = KeyId.safeParse(operand);
  if (!id.success) throw new UsageError("revoke takes the id of a key, 16 hex digits as `list` shows them");
  const at = values.at ? moment("at", values.at, 0) : new Date();
  const revocation = await revokeKey(openStore(values.store), id.data, at);
  if (!revocation) throw new UsageError(`there is no key ${id.data} in this store`);
  const { revokedAt } = revocation;
  report(values.json ?? false, { id: id.data, revokedAt }, [`key ${id.data} ends at ${revokedAt}`]);
  return exitCodes.done;
}

/** A day or a moment; a day alone means its begin plus `dayAddition`. */
function moment(name: string, value: string, dayAddition: number): Date {
  const [, date, clock] =
    /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(value) ?? [];
  const day = Date.parse(`${date}T00:00:00.000Z`);
  const time = clock ? Date.parse(value) : day + dayAddition;
  // Date.parse turns 2026-02-30 into March; only a real day prints as it was written.
  const real = !Number.isNaN(day) && new Date(day).toISOString().slice(0, 10) === date;
  if (real && !Number.isNaN(time)) return new Date(time);
  throw new UsageError(`--${name} must be a real day YYYY-MM-DD or a moment YYYY-MM-DDThh:mm:ssZ`);
}

/** What may be shown of a key: everything but its secret's digest. */
function shown({ id, owner, plan, quota, issuedAt, expiresAt }: KeyRecord, ended: KeyRevocation | undefined) {
  const revokedAt = ended?.revokedAt;
  return { id, owner, plan, quota: quota ?? plans[plan].dailyQuota, issuedAt, expiresAt, revokedAt };
}

function describe(record: KeyRecord, ended: KeyRevocation | undefined): string {
  const { id, owner, plan, quota, issuedAt, expiresAt, revokedAt } = shown(record, ended);
  const ends = revokedAt ? `, revoked at ${revokedAt}` : expiresAt ? `, expires at ${expiresAt}` : "";
  return `${id}  ${plan}  ${quota}/day  ${owner}  issued at ${issuedAt}${ends}`;
}
