import { type RawData, WebSocket } from "ws";
import type { z } from "zod";
import { FeedCommand, type FeedMessage, keyEnded } from "../../schemas/feed.ts";
import type { Catalog } from "../../snapshots/read/catalog.ts";
import type { ScoreChangeLog } from "../../snapshots/read/score-change-log.ts";
import { MissingObjectError } from "../../snapshots/store/objects.ts";
import type { Identity } from "../access/identity.ts";

/** What a client may leave unread before it is waited for. */
const unreadBytes = 64 * 1024;
/** How long a client may take to answer a close. */
const closeMilliseconds = 1000;

/** What all clients are told from. */
export interface FeedSources {
  catalog: Catalog;
  feed: ScoreChangeLog;
  /** How long a client may take to read when too much is unread. */
  stalledSeconds: number;
  /** Hears why a client could not be told; it is told in the next round. */
  failed: (error: unknown) => void;
}

/** One live connection, which is told one commit after the other. */
export class FeedClient {
  readonly owner: string;
  readonly #socket: WebSocket;
  readonly #identity: () => Identity;
  readonly #sources: FeedSources;
  /** The commit up to which it was told. */
  #position: number;
  /** Undefined: all. */
  #slugs: ReadonlySet<string> | undefined;
  #greeted = false;
  #busy = false;
  #alive = true;

  /** `identity` tells who holds the connection, and throws once the key no longer counts. */
  constructor(socket: WebSocket, identity: () => Identity, position: number, sources: FeedSources) {
    this.owner = identity().owner;
    this.#socket = socket;
    this.#identity = identity;
    this.#position = position;
    this.#sources = sources;
    socket.on("message", (data, binary) => this.#obey(data, binary));
    socket.on("pong", () => {
      this.#alive = true;
    });
    // Told by the close that follows.
    socket.on("error", () => {});
  }

  /** Tells what it has not been told yet; does nothing while that is being done. Never throws. */
  async advance(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#isBehind()) await this.#step();
      if (!this.#greeted) await this.#greet();
    } catch (error) {
      this.#sources.failed(error);
    } finally {
      this.#busy = false;
    }
  }

  async expired(): Promise<void> {
    await this.#send({ type: "error", code: "SNAPSHOT_EXPIRED" });
  }

  /** Ends the connection when its key no longer counts. */
  recheck(): void {
    try {
      this.#identity();
    } catch {
      this.#end(keyEnded.code, keyEnded.title);
    }
  }

  /** Ends the connection when the last ping was not answered, and sends another. */
  ping(): void {
    if (this.#alive) this.#socket.ping();
    else this.#socket.terminate();
    this.#alive = false;
  }

  /** The service goes away; another process may be asked. */
  close(): void {
    this.#end(1001);
  }

  /** Says goodbye, and does not wait long for an answer: it may stand behind much that is unread. */
  #end(code: number, reason?: string): void {
    this.#socket.close(code, reason);
    setTimeout(() => this.#socket.terminate(), closeMilliseconds).unref();
  }

  #newest(): number {
    return this.#sources.catalog.current()?.commit.commit ?? 0;
  }

  #isBehind(): boolean {
    return this.#position < this.#newest() && this.#socket.readyState === WebSocket.OPEN;
  }

  async #step(): Promise<void> {
    try {
      for (const change of await this.#sources.feed.changes(this.#position + 1))
        if (!this.#slugs || this.#slugs.has(change.slug)) await this.#send(change);
      this.#position += 1;
    } catch (error) {
      if (!(error instanceof MissingObjectError)) throw error;
      // Collected before it could be told: the client has to look at the scores themselves.
      this.#position = this.#newest();
      this.#greeted = false;
      await this.expired();
    }
  }

  async #greet(): Promise<void> {
    const { snapshotId, publishedAt } = await this.#sources.feed.commit(this.#position);
    await this.#send({ type: "hello", snapshotId, publishedAt });
    this.#greeted = true;
  }

  #obey(data: RawData, binary: boolean): void {
    const command = binary ? undefined : commandOf(String(data));
    if (command) {
      this.#slugs = new Set(command.slugs);
      return;
    }
    void this.#send({ type: "error", code: "INVALID_MESSAGE" });
    // One who sends and does not read gets no answers kept for it.
    if (this.#socket.bufferedAmount > unreadBytes) this.#socket.terminate();
  }

  /** Sends, and waits for a client that has much to read; one that does not read is cut off. */
  async #send(message: FeedMessage): Promise<void> {
    const sent = Promise.withResolvers<void>();
    this.#socket.send(JSON.stringify(message), () => sent.resolve());
    if (this.#socket.bufferedAmount <= unreadBytes) return;
    const timer = setTimeout(() => this.#socket.terminate(), this.#sources.stalledSeconds * 1000);
    await sent.promise;
    clearTimeout(timer);
  }
}

function commandOf(text: string): z.infer<typeof FeedCommand> | undefined {
  try {
    return FeedCommand.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
