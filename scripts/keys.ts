import { KeyPlan, plans } from "../schemas/plans.ts";
import { KeyId, type KeyRecord, type KeyRevocation } from "../schemas/store/stored-objects.ts";
import { issueKey, readKeys, revokeKey, rotateKey } from "../snapshots/keys/keys.ts";
import { printable } from "../snapshots/sources/sources.ts";
import { parseS3Location } from "../snapshots/store/storage.ts";
import { exitCodes, usageError } from "./cli.ts";
import { command, flag, jsonOption, number, type Program, runAsScript, text } from "./program.ts";
import { profileOption, profileTo } from "./sharing-profile.ts";
import { common, openStore, openStoreUnchecked, storeOption } from "./store.ts";

const dayMilliseconds = 86_400_000;

const issue = command({
  name: "issue",
  does: "prints a new key once; the store keeps only its SHA-256",
  options: {
    plan: text(KeyPlan.options.join("|"), "what the key opens", { required: true }),
    owner: text("NAME", "whose requests are counted together", { required: true }),
    quota: number("requests per UTC day", { min: 1 }, { otherwise: "the plan's" }),
    expires: text("DATE", "the last day, YYYY-MM-DD (UTC), or the moment, YYYY-MM-DDThh:mm:ssZ", {
      otherwise: "never",
    }),
    profile: profileOption,
    ...storeOption,
    create: flag("makes the store's directory where there is no store"),
    ...jsonOption,
  },
  async run(values, _operand, shell) {
    const plan = KeyPlan.safeParse(values.plan);
    if (!plan.success) throw usageError(`--plan must be one of ${KeyPlan.options.join(", ")}`);
    const { owner, quota } = values;
    if (owner.length > 200) throw usageError("--owner must have at most 200 characters");
    if (printable(owner) !== owner) throw usageError("--owner must not hold control characters");
    const now = new Date();
    const expiresAt = values.expires ? moment("expires", values.expires, dayMilliseconds) : undefined;
    if (expiresAt && expiresAt <= now) throw usageError("--expires lies in the past");

    const profile = profileTo(shell, values.profile, plan.data);
    // The key may be the store's first object. A prefix on S3 need not be created, and a key issuer has no right to
    // read other objects there.
    const anyhow = values.create || parseS3Location(values.store);
    const storage = anyhow
      ? await openStoreUnchecked(shell, values.store)
      : await openStore(shell, values.store, { wayOut: "; --create makes one", keysFirst: true });
    // Opened before the key is made, so that a path that is taken or cannot be written to fails now.
    await using file = await profile?.open();
    const { key, record } = await issueKey(storage, { plan: plan.data, owner, quota, expiresAt }, now);
    await file?.write(key, record.expiresAt);
    shell.say(`${describe(record, undefined)}\nThe key is shown this once:`);
    shell.report(values.json, { key, ...view(record, undefined) }, [key]);
  },
});

const list = command({
  name: "list",
  does: "the keys of a store, without their secrets",
  options: common,
  async run(values, _operand, shell) {
    const { records, revocations, damaged } = await readKeys(
      await openStore(shell, values.store, { keysFirst: true }),
    );
    for (const error of damaged) shell.say(`damaged: ${error.message}`);
    const keys = records.map((record) => view(record, revocations.get(record.id)));
    const lines = records.map((record) => describe(record, revocations.get(record.id)));
    shell.report(values.json, { keys, damaged: damaged.map((error) => error.key) }, lines);
    return damaged.length > 0 ? exitCodes.unexpected : exitCodes.done;
  },
});

const revoke = command({
  name: "revoke",
  operand: "ID",
  does: "ends a key; ID is its id as `list` shows it",
  options: {
    at: text("TIME", "when: a day's begin or a moment", { otherwise: "now" }),
    ...common,
  },
  async run(values, operand, shell) {
    const id = keyIdOption("revoke", operand);
    const at = values.at ? moment("at", values.at, 0) : new Date();
    const revocation = await revokeKey(await openStore(shell, values.store, { keysFirst: true }), id, at);
    if (!revocation) throw unknownKey(id);
    const { revokedAt } = revocation;
    shell.report(values.json, { id, revokedAt }, [`key ${id} ends at ${revokedAt}`]);
  },
});

const rotate = command({
  name: "rotate",
  operand: "ID",
  does: "prints a new key with the owner, plan, quota and expiry of an old one, which ends when the grace is over",
  options: {
    grace: { ...text("TIME", "how long both work, as 90m, 24h or 7d; at most 30d"), default: "24h" },
    ...common,
  },
  async run(values, operand, shell) {
    const id = keyIdOption("rotate", operand);
    const grace = duration("grace", values.grace);
    const storage = await openStore(shell, values.store, { keysFirst: true });
    const rotated = await rotateKey(storage, id, grace, new Date());
    if (!rotated) throw unknownKey(id);
    const { key, record, revocation } = rotated;
    const replaces = { id, revokedAt: revocation.revokedAt };
    shell.say(
      `${describe(record, undefined)}\nIt takes the place of key ${id}, which ends at ${replaces.revokedAt}.`,
    );
    shell.say("The key is shown this once:");
    shell.report(values.json, { key, ...view(record, undefined), replaces }, [key]);
  },
});

export const keysProgram: Program = {
  call: "npm run keys --",
  commands: [issue, list, revoke, rotate],
  notes:
    "Keys of one owner and plan share a daily counter, also while a key is being rotated. STORE is a " +
    "directory or s3://bucket/prefix.",
};

function keyIdOption(name: string, operand: string): string {
  const id = KeyId.safeParse(operand);
  if (id.success) return id.data;
  throw usageError(`${name} takes the id of a key, 16 hex digits as \`list\` shows them`);
}

const unknownKey = (id: string) => usageError(`there is no key ${id} in this store`);

/** Parses a time span of at most 30 days into milliseconds. */
function duration(name: string, value: string): number {
  const [, digits, unit] = /^(\d{1,6})([mhd])$/.exec(value) ?? [];
  const milliseconds =
    Number(digits) * { m: 60_000, h: 3_600_000, d: dayMilliseconds }[unit as "m" | "h" | "d"];
  if (milliseconds <= 30 * dayMilliseconds) return milliseconds;
  throw usageError(`--${name} must be minutes, hours or days, as 90m, 24h or 7d, and at most 30d`);
}

/** Parses a day or a moment. A day alone means its start plus `dayAddition` milliseconds. */
function moment(name: string, value: string, dayAddition: number): Date {
  const [, date, clock] =
    /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(value) ?? [];
  const day = Date.parse(`${date}T00:00:00.000Z`);
  const time = clock ? Date.parse(value) : day + dayAddition;
  // Date.parse turns 2026-02-30 into a day in March. Only a day that exists prints as it was written.
  const real = !Number.isNaN(day) && new Date(day).toISOString().slice(0, 10) === date;
  if (real && !Number.isNaN(time)) return new Date(time);
  throw usageError(`--${name} must be a real day YYYY-MM-DD or a moment YYYY-MM-DDThh:mm:ssZ`);
}

/** The fields of a key that may be shown: all but the digest of its secret. */
function view({ id, owner, plan, quota, issuedAt, expiresAt }: KeyRecord, ended: KeyRevocation | undefined) {
  const revokedAt = ended?.revokedAt;
  return { id, owner, plan, quota: quota ?? plans[plan].dailyQuota, issuedAt, expiresAt, revokedAt };
}

function describe(record: KeyRecord, ended: KeyRevocation | undefined): string {
  const { id, owner, plan, quota, issuedAt, expiresAt, revokedAt } = view(record, ended);
  const ends = revokedAt ? `, revoked at ${revokedAt}` : expiresAt ? `, expires at ${expiresAt}` : "";
  return `${id}  ${plan}  ${quota}/day  ${printable(owner)}  issued at ${issuedAt}${ends}`;
}

await runAsScript(keysProgram, import.meta.filename);
