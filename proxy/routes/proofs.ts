import { Fault } from "../../schemas/errors.ts";
import { proveMarket } from "../../snapshots/read/archive/market.ts";
import { askProven, type Logged, proofText } from "../../snapshots/read/catalog/log-proof.ts";
import { proveScore } from "../../snapshots/read/scores/scores.ts";
import { type Answer, askedReply, textContent } from "../reply/reply.ts";
import type { AppServices } from "../services.ts";

const media = { json: "application/json", text: "text/plain; charset=utf-8" };

/** Proofs of markets and scores (INTERFACE 4.9), as JSON or as the text of c2sp.org/tlog-proof. */
export function proofAnswers({ catalog, publicLog }: Pick<AppServices, "catalog" | "publicLog">) {
  const proven =
    (prove: typeof proveMarket | typeof proveScore): Answer =>
    async (request, { locals }) => {
      const name = String(Object.values(request.params)[0]);
      const form = /^text/.test(String(request.accepts("json", "text", media.text))) ? "text" : "json";
      const plan = async (...logged: Logged) => {
        const proof = await prove(catalog, name, ...logged);
        const text = form === "text" ? proofText(proof) : JSON.stringify(proof);
        if (text) return Buffer.from(text);
        throw new Fault("NOT_FOUND", "Nobody has signed the log up to this snapshot.");
      };
      const headers = { "Content-Type": media[form] };
      const asked = await askProven(catalog, publicLog, locals.asOf, ["proof", form, name], plan);
      return askedReply(catalog, asked, async (text, coding) => ({
        ...(await textContent(text, coding)),
        headers,
      }));
    };
  return {
    marketProof: proven(proveMarket),
    scoreProof: proven(proveScore),
  } satisfies Record<string, Answer>;
}
