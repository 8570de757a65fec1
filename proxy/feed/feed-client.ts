import { type RawData, WebSocket } from "ws";
import type { z } from "zod";
import { FeedCommand, type FeedMessage, keyEnded } from "../../schemas/feed.ts";
import type { Catalog } from "../../snapshots/read/catalog.ts";
import type { ScoreChangeLog } from "../../snapshots/read/score-change-log.ts";
import { MissingObjectError } from "../../snapshots/store/objects.ts";
import type { Identity } from "../access/identity.ts";

// Beyond this many unread bytes the feed waits for the client.
const unreadBytes = 64 * 1024;
// How long a client may take to answer a close.
const closeMilliseconds = 1000;

/** What all clients share. */
export interface FeedSources {
  catalog: Catalog;
  feed: ScoreChangeLog;
  /** How long a client may take to read when too much is unread. */
  stalledSeconds: number;
  /** Called with the reason why a client got no changes. It gets them in the next round. */
  failed: (error: unknown) => void;
}

/** One live connection. It gets the changes of one commit after the other. */
export class FeedClient {
  readonly owner: string;
  readonly #socket: WebSocket;
  readonly #identity: () => Identity;
  readonly #sources: FeedSources;
  /** The last commit whose changes were sent. */
  #position: number;
  /** The subscribed slugs; undefined for all. */
  #slugs: ReadonlySet<string> | undefined;
  #greeted = false;
  #busy = false;
  #alive = true;

  /** `identity` returns who holds the connection, and throws once the key is no longer valid. */
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
    // A close follows.
    socket.on("error", () => {});
  }

  /** Sends the changes that were not sent yet, unless that is already in progress. Never throws. */
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

  /** Ends the connection if its key is no longer valid. */
  recheck(): void {
    try {
      this.#identity();
    } catch {
      this.#end(keyEnded.code, keyEnded.title);
    }
  }

  /** Sends a ping, or ends the connection if the last one was not answered. */
  ping(): void {
    if (this.#alive) this.#socket.ping();
    else this.#socket.terminate();
    this.#alive = false;
  }

  /** Ends the connection because the process ends. */
  close(): void {
    this.#end(1001);
  }

  /** Closes the connection without waiting long for an answer, which may be behind much unread data. */
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
      // The commit was collected before it could be sent, so the client has to read the scores.
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
    // A client that sends without reading must not fill the memory with answers.
    if (this.#socket.bufferedAmount > unreadBytes) this.#socket.terminate();
  }

  /** Sends a message. If much is unread, waits for the client, and cuts it off if it does not read. */
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
