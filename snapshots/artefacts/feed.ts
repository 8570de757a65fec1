import { meanings } from "../../schemas/meanings.ts";
import type { Tiers } from "../../schemas/store/snapshot.ts";
import { type Addresses, feedAddress, homeAddress, pageAddress, siteName } from "./addresses.ts";
import { type Markup, markup } from "./markup.ts";
import { changeId } from "./tiers.ts";

/** An Atom feed (RFC 4287), newest change first. */
export function renderFeed(addresses: Addresses, { since, changes }: Tiers): Markup {
  const entries = changes.map((change) => {
    const { slug, from, to, bri, at } = change;
    return markup`  <entry>
    <id>${changeId(change)}</id>
    <title>${slug} moved from ${from} to ${to}</title>
    <published>${at}</published>
    <updated>${at}</updated>
    <link rel="alternate" type="text/html" href="${pageAddress(addresses, slug)}"/>
    <category term="${to}"/>
    <summary>BRI ${bri}. ${meanings.tier.meaning}</summary>
  </entry>
`;
  });
  return markup`<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">
  <id>${feedAddress(addresses)}</id>
  <title>${siteName}: changes of tier</title>
  <subtitle>${meanings.tier.meaning}</subtitle>
  <updated>${changes[0]?.at ?? since}</updated>
  <author><name>${siteName}</name></author>
  <link rel="self" type="application/atom+xml" href="${feedAddress(addresses)}"/>
  <link rel="alternate" type="text/html" href="${homeAddress(addresses)}"/>
${entries}</feed>
`;
}
