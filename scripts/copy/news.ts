import { feedProtocol, keyProtocolPrefix } from "../../schemas/headers.ts";

export interface NewsParts {
  url: string;
  key: string;
  /** The snapshot that the copy has. */
  snapshotId: string;
  /** How long to wait without the live feed, and with a feed that says nothing. */
  pollSeconds: { without: number; with: number };
  signal?: AbortSignal | undefined;
}

/**
 * Waits until the live feed names another snapshot, or until it is time to ask. Never rejects: without the feed it is a
 * wait. A wait costs one unit, that of the connection.
 */
export function waitForNews({ url, key, snapshotId, pollSeconds, signal }: NewsParts): Promise<void> {
  const address = `${url.replace(/^http/, "ws").replace(/(\/api\/v1)?\/*$/, "")}/api/v1/ws/scores`;
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const wake = (seconds: number) => {
      clearTimeout(timer);
      timer = setTimeout(end, seconds * 1000);
    };
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      socket?.close();
      resolve();
    };
    const socket = socketTo(address, key);
    wake(pollSeconds.without);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
    socket?.addEventListener("open", () => {
      wake(pollSeconds.with);
      socket.send(JSON.stringify({ type: "subscribe", slugs: [], snapshots: true }));
    });
    socket?.addEventListener("message", ({ data }) => {
      const named = snapshotIn(data);
      if (named !== undefined && named !== snapshotId) end();
    });
    socket?.addEventListener("close", () => wake(pollSeconds.without));
    socket?.addEventListener("error", () => {});
  });
}

function socketTo(address: string, key: string): WebSocket | undefined {
  try {
    return new WebSocket(address, [feedProtocol, `${keyProtocolPrefix}${key}`]);
  } catch {
    return undefined;
  }
}

function snapshotIn(message: unknown): string | undefined {
  try {
    const { snapshotId } = JSON.parse(String(message));
    return typeof snapshotId === "string" ? snapshotId : undefined;
  } catch {
    return undefined;
  }
}
