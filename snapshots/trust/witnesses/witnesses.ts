import type { Policy, Witness } from "../../format/policy.ts";
import { type Answer, askWitnesses, type Submission } from "./ask-witnesses.ts";

/**
 * The witnesses of a publisher's policy during one run. Nobody who failed once in it is asked, or waited for, again.
 */
export class Witnesses {
  readonly policy: Policy;
  readonly #failed = new Map<Witness, Answer>();

  constructor(policy: Policy) {
    this.policy = policy;
  }

  /** Asks those given, at once. */
  async ask(among: readonly Witness[], submission: Submission): Promise<Answer[]> {
    const asked = among.filter((witness) => !this.#failed.has(witness));
    const answers = await askWitnesses(asked, submission);
    for (const answer of answers)
      if ("fault" in answer && !answer.otherTree && answer.size === undefined)
        this.#failed.set(answer.witness, answer);
    return among.map((each) => this.#failed.get(each) ?? answers.find(({ witness }) => witness === each)!);
  }
}
