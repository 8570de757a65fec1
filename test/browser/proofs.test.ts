import { expect, test } from "vitest";
import { flipped, inLog, noteKey } from "../helpers/archive/proofs.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { market } from "../helpers/publish/records.ts";
import { findChromium, launch } from "../helpers/servers/chromium.ts";

const program = findChromium();

/** Tells which of several answers the client accepts. */
const checkPage = `<!doctype html><title>proofs</title><script type="module">
  const { verifyProof } = await import(new URL("client.js", location));
  const accepts = async (text, known) => {
    try {
      return Boolean(await verifyProof(JSON.parse(text), known));
    } catch {
      return false;
    }
  };
  window.accepted = (texts, known) => Promise.all(texts.map((text) => accepts(text, known)));
</script>`;

test.runIf(program)(
  "a browser accepts the service's proof under its key, and refuses changed ones",
  async () => {
    const proxy = await startTestProxy({ markets: 200 });
    const browser = await launch(program!);
    try {
      const headers = bearer(await proxy.issue());
      const { id } = market(77);
      const answer = (await proxy.get(`/api/v1/markets/${id}/proof`, { headers })).json();
      const key = noteKey("prs.example/log");
      const signed = inLog(answer, [key]);
      const changed = [...flipped(JSON.stringify(signed), 41)];
      const page = await browser.newPage();
      // WebCrypto is there for pages of a secure origin, such as this machine's.
      const origin = `http://127.0.0.1:${proxy.port}`;
      await page.route(`${origin}/check.html`, (route) =>
        route.fulfill({ contentType: "text/html", body: checkPage }),
      );
      await page.goto(`${origin}/check.html`);
      await page.waitForFunction("window.accepted");
      const given = [[JSON.stringify(signed), ...changed], { id, asOf: signed.snapshotId, key: key.text }];
      const accepted = await page.evaluate(`accepted(...${JSON.stringify(given)})`);
      expect(accepted).toEqual([true, ...changed.map(() => false)]);
    } finally {
      await browser.close();
      await proxy.stop();
    }
  },
);
