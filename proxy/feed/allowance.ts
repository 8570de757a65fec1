import type { Socket } from "node:net";
import { WebSocket } from "ws";
import { feedLimits } from "../../schemas/feed.ts";

const { framesPerSecond, burstFrames } = feedLimits;

/**
 * Closes a connection on which a client sends more frames than it may, fragments, pings and pongs included. They are
 * counted before the library gets them: it would report whole messages alone, and would handle everything it has read
 * even after the connection has ended.
 */
export function boundFrames(socket: Socket, live: WebSocket, now: () => number): void {
  const begun = frameCounter();
  let left: number = burstFrames;
  let counted = now();
  const [receive] = socket.listeners("data");
  socket.removeAllListeners("data").on("data", (bytes: Buffer) => {
    const seconds = Math.max(0, now() - counted) / 1000;
    counted = now();
    // Once the connection closes, bytes that begin no frame count too: they could go on for ever.
    const frames = begun(bytes) || Number(live.readyState !== WebSocket.OPEN);
    left = Math.min(burstFrames, left + seconds * framesPerSecond) - frames;
    if (left >= 0) return void receive?.call(socket, bytes);
    left = Number.NEGATIVE_INFINITY;
    live.pause();
    // Without this, the library would still handle what was read until then.
    socket.prependOnceListener("close", () => socket.read());
    live.close(1008, "too many messages");
  });
}

/** Returns a function that counts the frames that begin in a client's bytes, which come piece by piece. */
function frameCounter(): (bytes: Buffer) => number {
  let head = Buffer.alloc(0);
  let rest = 0;
  return (piece) => {
    const bytes = Buffer.concat([head, piece]);
    let [at, frames] = [rest, 0];
    for (let size = frameBytes(bytes, at); size > 0; size = frameBytes(bytes, at)) {
      at += size;
      frames += 1;
    }
    head = Buffer.from(bytes.subarray(at));
    rest = Math.max(0, at - bytes.length);
    return frames;
  };
}

/** The size of the masked frame that begins at an offset (RFC 6455, 5.2); 0 when the bytes do not tell it yet. */
function frameBytes(bytes: Buffer, at: number): number {
  const short = (bytes[at + 1] ?? 0) & 0x7f;
  const extended = { 126: 2, 127: 8 }[short] ?? 0;
  if (at + 2 + extended > bytes.length) return 0;
  const length = extended === 0 ? short : Number(`0x${bytes.toString("hex", at + 2, at + 2 + extended)}`);
  return 2 + extended + 4 + length;
}
