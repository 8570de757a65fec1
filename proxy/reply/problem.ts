import { type ErrorCode, errors, type Problem, ServiceError } from "../../schemas/errors.ts";

const mediaType = "application/problem+json";

/** Whatever was thrown, as an error of the service; what is not one of ours says nothing of itself. */
export function serviceErrorOf(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  return new ServiceError(
    "INTERNAL",
    "Something went wrong on our side; the request id identifies it.",
    {},
    {
      cause: thrown,
    },
  );
}

/** An error as it is sent. */
export interface ProblemReply {
  status: number;
  headers: Record<string, string | number>;
  body: Buffer;
}

/** An error in the one shape (SPEC 7, RFC 9457), with the headers that belong to its code. */
export function problemReply(error: ServiceError, requestId: string): ProblemReply {
  const { status, title } = errors[error.code];
  const { parameter, ...extras } = error.extras;
  const problem: Problem = {
    type: `urn:prs:error:${error.code}`,
    title,
    status,
    code: error.code,
    detail: withoutKeys(error.message),
    requestId,
    ...(parameter !== undefined && { parameter: withoutKeys(parameter) }),
    ...extras,
  };
  const body = Buffer.from(JSON.stringify(problem));
  return {
    status,
    headers: {
      "Content-Type": mediaType,
      "Cache-Control": "no-store",
      "Content-Length": body.length,
      ...(status === 426 && {
        Upgrade: "websocket",
        Connection: "Upgrade, close",
        "Sec-WebSocket-Version": 13,
      }),
      ...(status === 401 && { "WWW-Authenticate": challenge(error.code) }),
    },
    body,
  };
}

/** Details name what was sent, and a key may be sent in the wrong place: as a parameter's name, for one. */
function withoutKeys(text: string): string {
  return text.replace(/prs_live_\w+/gi, "prs_live_…");
}

function challenge(code: ErrorCode): string {
  const realm = 'Bearer realm="Protocol Risk Score Service"';
  return code === "INVALID_API_KEY" ? `${realm}, error="invalid_token"` : realm;
}
