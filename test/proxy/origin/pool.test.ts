import { createServer } from "node:http";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Request, Response } from "../../../proxy/exchange.ts";
import { cdnOrigin } from "../../../proxy/origin/origin.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { type FaultyOrigin, good, startFaultyOrigin } from "../../helpers/http/faulty-origin.ts";
import { call, until } from "../../helpers/http/proxy-client.ts";
import { listenLocally } from "../../helpers/servers/programs.ts";

/** The sockets of the cdn's pool. */
const sockets = 64;

const body = Buffer.from("{}");
const object = { hash: sha256(body), bytes: body.length };

let origin: FaultyOrigin;
let port: number;
let stop: () => void;
beforeEach(async () => {
  origin = await startFaultyOrigin(async () => body);
  const cdn = cdnOrigin(origin.url, { deadlineSeconds: 3 });
  const server = createServer(async (request, response) => {
    Object.assign(response, { locals: {} });
    const forwarded = cdn.fetch(request as Request, response as Response, object);
    response.end(await forwarded.catch(({ code }) => code));
  });
  port = await listenLocally(server);
  stop = () => {
    cdn.close();
    server.close();
    server.closeAllConnections();
  };
});
afterEach(async () => {
  stop();
  await origin.stop();
});

const fetched = async () => (await call(port, "/")).text;

test("fetches that the origin leaves hanging, or that wait for a free socket, end with their deadline", async () => {
  origin.behave = () => {};
  const waiting = Array.from({ length: sockets + 10 }, fetched);
  await until("all sockets of the pool to be in use", () => origin.requests.length >= sockets);
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["UPSTREAM_TIMEOUT"]));

  // Had one of them kept its socket or its place in the queue, the pool would be smaller for ever.
  await until("the origin to see all connections closed", () => origin.open() === 0);
  origin.behave = good;
  await until("the origin to be asked again", async () => (await fetched()) === "{}");
});
