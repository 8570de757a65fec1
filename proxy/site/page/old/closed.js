import { html } from "./dom.js";

/**
 * @import { Site } from "./dom.js"
 */

/**
 * What a key opens, in words: a picture of it would look like an answer.
 * @param {Site} site
 * @param {string} words
 */
export const promise = ({ api, askForKey }, words) =>
  html(
    "div",
    { class: "promise" },
    html("p", {}, words),
    !api.keyed &&
      api.live &&
      html("button", { type: "button", class: "plain", onclick: () => askForKey() }, "Enter an API key"),
  );
