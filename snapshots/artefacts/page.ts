import { type Addresses, iconAddress, siteName } from "./addresses.ts";
import { type Markup, markup } from "./markup.ts";

/** These pages run no script. The policy also stops a text that slipped through the escaping. */
const pagePolicy =
  "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'";

interface DocumentParts {
  title: string;
  /** The address that search engines should use. */
  address: string;
  /** The root of the public tree, relative to the document. */
  root: string;
  head: Markup;
  body: Markup;
}

export const renderDocument = ({ title, address, root, head, body }: DocumentParts) => markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${pagePolicy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="canonical" href="${address}">
<link rel="stylesheet" href="${root}site/style.css">
${head}</head>
${body}</html>
`;

interface PageParts extends Omit<DocumentParts, "body"> {
  description: string;
  /** Link previews show it large; without it they show the icon. */
  picture?: { address: string; says: string; width: number; height: number };
  main: Markup;
  footer: Markup;
}

/** Adds what search engines and link previews read. */
export function renderPage(addresses: Addresses, page: PageParts): Markup {
  const { title, description, address, root, head, picture, main, footer } = page;
  const size =
    picture &&
    markup`<meta property="og:image:width" content="${picture.width}">
<meta property="og:image:height" content="${picture.height}">
`;
  return renderDocument({
    title,
    address,
    root,
    head: markup`<meta name="description" content="${description}">
<link rel="icon" href="${root}site/icon.svg" type="image/svg+xml">
<link rel="alternate" type="application/atom+xml" title="Changes of tier" href="${root}feed.xml">
<meta property="og:type" content="website">
<meta property="og:site_name" content="${siteName}">
<meta property="og:title" content="${title}">
<meta property="og:description" content="${description}">
<meta property="og:url" content="${address}">
<meta property="og:image" content="${picture?.address ?? iconAddress(addresses)}">
<meta property="og:image:alt" content="${picture?.says ?? siteName}">
${size ?? ""}<meta name="twitter:card" content="${picture ? "summary_large_image" : "summary"}">
${head}`,
    body: markup`<body>
<header class="top"><div class="wide"><a class="brand" href="${root}index.html"><img src="${root}site/icon.svg" alt="" width="28" height="28">${siteName}</a></div></header>
<main class="wide">
${main}</main>
<footer class="wide"><p>${footer} · <a href="${root}feed.xml">Changes of tier as a feed</a></p></footer>
</body>
`,
  });
}

/** A bar of the length `value / max`. Its element needs the class of a step of the scale, which gives the colour. */
export const bar = (value: number, max: number) =>
  markup`<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="1"/><rect class="value" width="${(100 * value) / max}" height="1"/></svg>`;

/** `step` gives the colour: a step of the scale from 1 to 7. */
export const barred = (value: number, max: number, step: number) =>
  markup`<span class="score tier-${step}">${bar(value, max)}<b>${value}</b></span>`;

/** A step of the scale from 1 to 7, for a share of the highest score. */
export const stepOf = (share: number) => Math.min(7, 1 + Math.floor(share * 7));
