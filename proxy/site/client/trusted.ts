/** The latest time that `asOf` means; NaN where it is a snapshot's id. */
export const timeIn = (asOf: string): number =>
  /^[0-9a-f]{64}$/.test(asOf) ? Number.NaN : Date.parse(asOf.length > 10 ? asOf : `${asOf}T23:59:59.999Z`);

/** Whether `key` is a policy. */
export const isPolicy = (keys: unknown): keys is string => typeof keys === "string" && /\s/.test(keys.trim());
