import { dimensionMeanings, meanings } from "../../../../schemas/meanings.ts";
import { html } from "./dom.js";
import { spoken } from "./words.js";

/**
 * @import { Child } from "./dom.js"
 */
/** @typedef {keyof typeof meanings} Meaning */

/**
 * A term whose meaning opens when it is tapped or gets the focus.
 * @param {Child} text
 * @param {Meaning} about
 */
export const term = (text, about) =>
  html("button", { type: "button", class: "term", "data-meaning": about }, text);

/**
 * The name of a dimension, as a link to what it looks at.
 * @param {string} key
 * @param {string} [name]
 */
export const dimensionLink = (key, name = spoken(key)) =>
  html(
    "a",
    {
      class: "term",
      href: `#/meanings/${key}`,
      "data-meaning": key in dimensionMeanings.market ? "marketDimension" : "protocolDimension",
    },
    name,
  );
