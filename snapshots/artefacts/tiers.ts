import { createHash } from "node:crypto";
import { meanings } from "../../schemas/meanings.ts";
import type { ProtocolScore } from "../../schemas/records.ts";
import { type TierChange, Tiers } from "../../schemas/store/stored-objects.ts";
import { layout } from "../store/layout.ts";
import { type Addresses, addressOf, siteName } from "./addresses.ts";
import { type Markup, markup } from "./markup.ts";

/** How long before the newest commit changes are told. */
const changeMilliseconds = 30 * 86_400_000;
/** The newest changes are told. Without a bound, a formula that moves every protocol would make the feed huge. */
export const maxChanges = 500;

/** Changes are told since then, when the newest commit was published at `publishedAt`. Both are ISO 8601. */
export const oldestTold = (publishedAt: string) =>
  new Date(Date.parse(publishedAt) - changeMilliseconds).toISOString();

/**
 * The tiers after a commit with these records, and what changed since `before`, which the public tree shows. Without
 * `before` nothing is known to have changed. The same commit again changes nothing.
 */
export function tiersAfter(
  before: Tiers | undefined,
  records: readonly ProtocolScore[],
  publishedAt: string,
): Tiers {
  const from = (slug: string) =>
    before && Object.hasOwn(before.tiers, slug) ? before.tiers[slug] : undefined;
  const fresh = records.flatMap(({ slug, forgeScale, bri }): TierChange[] => {
    const old = from(slug);
    return old === undefined || old === forgeScale
      ? []
      : [{ slug, from: old, to: forgeScale, bri, at: publishedAt }];
  });
  const oldest = oldestTold(publishedAt);
  const recent = (before?.changes ?? []).filter(({ at }) => at >= oldest);
  return {
    since: before?.since ?? publishedAt,
    tiers: Object.fromEntries(records.map(({ slug, forgeScale }) => [slug, forgeScale])),
    changes: [...fresh, ...recent].slice(0, maxChanges),
  };
}

/** Undefined when they are missing or damaged. */
export function readTiers(bytes: Buffer | undefined): Tiers | undefined {
  try {
    return bytes && Tiers.parse(JSON.parse(String(bytes)));
  } catch {
    return undefined;
  }
}

/** A UUID of version 8 made of what changed, so that it stays when the site moves. */
export function changeId({ slug, from, to, at }: TierChange): string {
  const digits = createHash("sha256").update([slug, from, to, at].join("\n")).digest("hex");
  const variant = "89ab"[Number.parseInt(digits[16]!, 16) % 4];
  const parts = [digits.slice(0, 8), digits.slice(8, 12), `8${digits.slice(13, 16)}`];
  return `urn:uuid:${[...parts, `${variant}${digits.slice(17, 20)}`, digits.slice(20, 32)].join("-")}`;
}

/** An Atom feed (RFC 4287), newest change first. */
export function renderFeed(addresses: Addresses, { since, changes }: Tiers): Markup {
  const entries = changes.map((change) => {
    const { slug, from, to, bri, at } = change;
    return markup`  <entry>
    <id>${changeId(change)}</id>
    <title>${slug} moved from ${from} to ${to}</title>
    <published>${at}</published>
    <updated>${at}</updated>
    <link rel="alternate" type="text/html" href="${addressOf(addresses, layout.protocolPage(slug))}"/>
    <category term="${to}"/>
    <summary>BRI ${bri}. ${meanings.tier.meaning}</summary>
  </entry>
`;
  });
  return markup`<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">
  <id>${addressOf(addresses, layout.feed)}</id>
  <title>${siteName}: changes of tier</title>
  <subtitle>${meanings.tier.meaning}</subtitle>
  <updated>${changes[0]?.at ?? since}</updated>
  <author><name>${siteName}</name></author>
  <link rel="self" type="application/atom+xml" href="${addressOf(addresses, layout.feed)}"/>
  <link rel="alternate" type="text/html" href="${addressOf(addresses, layout.siteIndex)}"/>
${entries}</feed>
`;
}
