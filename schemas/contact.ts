import { z } from "zod";

// No form or mailbox has a longer address, and many answers repeat it.
const maxLength = 1000;

export const contactRule =
  "an https address or an e-mail address, such as https://example.org/keys or keys@example.org";

/**
 * Returns the address of a link to where a key comes from: a page's, or an e-mail address behind `mailto:`. Throws when
 * the text is neither.
 */
export function contactAt(text: string): string {
  const mailbox = text.replace(/^mailto:/i, "");
  if (z.email().max(maxLength).safeParse(mailbox).success) return `mailto:${mailbox}`;
  const page = URL.parse(text);
  if (page?.protocol === "https:" && !page.username && !page.password && page.href.length <= maxLength)
    return page.href;
  throw new Error(contactRule);
}

/** A contact as people write it. */
export const contactText = (contact: string): string => contact.replace(/^mailto:/, "");
