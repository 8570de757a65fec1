import { Fault } from "../../schemas/errors.ts";
import { proveMarket } from "../../snapshots/read/archive/market.ts";
import { askProven, type Logged, proofText } from "../../snapshots/read/catalog/log-proof.ts";
import { proveScore } from "../../snapshots/read/scores/scores.ts";
import { inForms } from "../reply/forms.ts";
import { type Answer, askedReply, textContent } from "../reply/reply.ts";
import type { AppServices } from "../services.ts";

const media = { json: "application/json", text: "text/plain; charset=utf-8" };
const texts = new Map(["text/plain", media.text].map((type) => [type, "text" as const]));

/** Proofs of markets and scores (INTERFACE 4.9), as JSON or as the text of c2sp.org/tlog-proof. */
export function proofAnswers({ catalog, publicLog }: Pick<AppServices, "catalog" | "publicLog">) {
  const proven = (prove: typeof proveMarket | typeof proveScore) => {
    const answerIn =
      (form: keyof typeof media): Answer =>
      async ({ params, asOf }) => {
        const name = String(params.id ?? params.slug);
        const plan = async (...logged: Logged) => {
          const proof = await prove(catalog, name, ...logged);
          const text = form === "text" ? proofText(proof) : JSON.stringify(proof);
          if (text) return Buffer.from(text);
          throw new Fault("NOT_FOUND", "Nobody has signed the log up to this snapshot.");
        };
        const asked = await askProven(catalog, publicLog, asOf, ["proof", form, name], plan);
        return askedReply(catalog, asked, (text, coding) => textContent(text, coding, media[form]));
      };
    return inForms(answerIn("json"), texts, answerIn);
  };
  return {
    marketProof: proven(proveMarket),
    scoreProof: proven(proveScore),
  } satisfies Record<string, Answer>;
}
