import { type Endpoint, type EndpointId, endpoints } from "../../schemas/endpoints.ts";
import { sinceOf } from "../../snapshots/read/query.ts";
import type { Request, Response, Step } from "../exchange.ts";
import type { Limits } from "../limits.ts";
import { type Answer, type Prepared, prepare, type Reply, send } from "../reply/reply.ts";
import { requireUnits, type SendRows } from "../reply/rows.ts";
import { ServiceError } from "../reply/service-error.ts";
import { type ArchiveParts, archiveAnswers } from "./archive.ts";
import type { InTime } from "./deadline.ts";
import type { Lane } from "./lane.ts";
import { type ScoreParts, scoreAnswers } from "./scores.ts";
import { type ServiceParts, serviceAnswers } from "./service.ts";

/** What answers are made from and sent by. */
export interface AnswerParts extends ScoreParts, ArchiveParts, ServiceParts {
  /** The reply of a static file, by its address. */
  file: (address: string) => Reply;
  inTime: InTime;
  lane: Lane;
  sendRows: SendRows;
  limits: Limits;
  /** Epoch milliseconds. */
  now: () => number;
}

/** The last step of each endpoint; a missing one does not compile. */
export function createAnswers(parts: AnswerParts): Record<EndpointId, Step> {
  const file: Answer = ({ path }) => parts.file(path);
  const answers: Record<EndpointId, Answer> = {
    ...scoreAnswers(parts),
    ...archiveAnswers(parts),
    ...serviceAnswers(parts),
    scoreFeed: upgradeRequired,
    site: file,
    siteFile: file,
    openapi: file,
    docs: file,
    docsFile: file,
  };
  const ids = Object.keys(endpoints) as EndpointId[];
  return Object.fromEntries(ids.map((id) => [id, answerStep(endpoints[id], answers[id], parts)])) as Record<
    EndpointId,
    Step
  >;
}

/** Whoever asks for the live feed in plain HTTP; a WebSocket handshake does not come here. */
const upgradeRequired: Answer = (_request, { locals }) => {
  sinceOf(locals.parameters!);
  throw new ServiceError("UPGRADE_REQUIRED", "Connect with a WebSocket client, protocol version 13.");
};

/** Makes an answer ready in time, settles what it costs, and sends it. */
function answerStep({ heavy }: Endpoint, answer: Answer, parts: AnswerParts): Step {
  const { inTime, lane, now, sendRows } = parts;
  const prepared = async (request: Request, response: Response): Promise<Prepared> =>
    prepare(request, await answer(request, response));
  return async (request, response) => {
    const { receipt, caller } = response.locals;
    const ready = await inTime((late) =>
      heavy
        ? lane(caller?.owner ?? "", () => unless(late, () => prepared(request, response)))
        : prepared(request, response),
    );
    if (ready.known) await receipt?.giveBack();
    const { rows } = ready;
    if (rows && receipt) requireUnits(rows, receipt);
    if (rows && request.method !== "HEAD") return sendRows({ ...ready, rows }, response);
    send(request, response, ready, now());
  };
}

async function unless<T>(late: () => boolean, work: () => Promise<T>): Promise<T> {
  if (late()) throw new Error("nobody waits for this answer any more");
  return work();
}
