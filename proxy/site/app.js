import { Api } from "./api.js";
import { openArchive } from "./archive.js";
import { openCompare } from "./compare.js";
import { failure, fill, html, part } from "./dom.js";
import { openMeanings, startExplaining } from "./explain.js";
import { startJumping } from "./jump.js";
import { accessStrip } from "./key.js";
import { openMarket } from "./market.js";
import { openProtocol } from "./protocol.js";
import { startRouter } from "./router.js";
import { openScoreboard } from "./scoreboard.js";
import { minutes } from "./words.js";

/**
 * @import { Route, View } from "./router.js"
 */

/**
 * What every view needs.
 * @typedef {{ api: Api, askForKey: () => void }} Site
 */

// Following the link would replace the view's address behind the #.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  part("main").focus();
});

startExplaining();

try {
  start(await Api.find());
} catch (error) {
  fill(
    part("main"),
    html("h1", {}, "Risk scores"),
    failure(error, () => location.reload()),
  );
}

/** @param {Api} api */
function start(api) {
  const access = accessStrip(part("access"), api, () => router.again());
  /** @type {Site} */
  const site = { api, askForKey: access.ask };
  fill(part("about"), ...colophon(api, () => router.again(), startJumping(api)));
  const router = startRouter((route) => open(site, route), showPlace);
}

/**
 * @param {Site} site
 * @param {Route} route
 * @returns {View}
 */
function open(site, route) {
  // Scores come from whichever snapshot is served, and only the archive stays with one.
  if (["scores", "protocol", "compare"].includes(route.name)) site.api.shown = undefined;
  if (route.name === "scores") return openScoreboard(site, route.query);
  if (route.name === "protocol") return openProtocol(site, route.slug, route.query.get("asOf"));
  if (route.name === "archive") return openArchive(site, route.query);
  if (route.name === "compare") return openCompare(site, route.slugs);
  if (route.name === "meanings") return openMeanings(route.key);
  if (route.name === "market") return openMarket(site, route.id, route.query);
  const element = html(
    "article",
    {},
    html("h1", {}, "No such page"),
    html("p", {}, html("a", { href: "#/" }, "Go to the scores")),
  );
  return { title: "No such page", element, close: () => {} };
}

/** Draws the navigation and marks the current view.
 * @param {Route} route */
function showPlace({ name }) {
  const link = (/** @type {string} */ href, /** @type {string} */ text, /** @type {boolean} */ here) =>
    html("a", { href, "aria-current": here ? "page" : undefined }, text);
  fill(
    part("nav"),
    link("#/", "Scores", name === "scores"),
    link("#/archive", "Archive", name === "archive"),
  );
}

/**
 * Says which snapshot the page shows, and when there is a newer one.
 * @param {Api} api
 * @param {() => void} again shows the view anew
 * @param {() => void} jump opens the list of places
 */
function colophon(api, again, jump) {
  const snapshot = html("p", { class: "quiet" });
  const news = part("news");
  let told = "";
  api.onstatus = (newest) => {
    const { snapshotId, commit, publishedAt, checkedAt, stale } = api.shown ?? newest;
    fill(
      snapshot,
      // A view of an earlier state says which that is.
      /[?&]asOf=/.test(location.hash) ? "The present snapshot is " : "Snapshot ",
      html("code", { title: snapshotId }, snapshotId.slice(0, 12)),
      `, published ${minutes(publishedAt)}, checked ${minutes(checkedAt)}.`,
      stale && html("strong", {}, " No publish run has succeeded recently, so the data may be out of date."),
    );
    const show = () => {
      api.shown = newest;
      api.onstatus(newest);
      part("main").focus({ preventScroll: true });
      again();
    };
    // Filled again, it would be read out again.
    if (told === snapshotId + newest.snapshotId) return;
    told = snapshotId + newest.snapshotId;
    fill(
      news,
      // Another process behind the same address may be late, and serve an older one.
      newest.commit > commit && [
        `Newer data was published ${minutes(newest.publishedAt)}. `,
        html("button", { type: "button", class: "plain", onclick: show }, "Show it"),
      ],
    );
  };
  // The views report failed requests.
  const look = () => document.visibilityState === "visible" && api.look().catch(() => {});
  if (api.live) {
    look();
    setInterval(look, 60_000);
    window.addEventListener("hashchange", look);
    document.addEventListener("visibilitychange", look);
  }
  return [
    snapshot,
    html(
      "p",
      { class: "quiet" },
      "Data: ",
      html("a", { href: api.addresses.scores }, "scores as JSON"),
      " · ",
      html("a", { href: "#/meanings" }, "What the numbers mean"),
      " · ",
      html("button", { type: "button", class: "plain", onclick: () => jump() }, "Go to… (Ctrl+K)"),
      api.addresses.docs !== undefined && [" · ", html("a", { href: api.addresses.docs }, "API reference")],
    ),
  ];
}
