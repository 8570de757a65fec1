import { expect, test } from "vitest";
import { parseRedisUrl } from "../../../proxy/quota/redis.ts";

const nothing = { username: "", password: "", name: "", db: 0, sentinelUsername: "", sentinelPassword: "" };
const node = (host: string, port: number) => ({ host, port });

test.each([
  ["rediss://:s@h/1", { mode: "redis", tls: true, nodes: [node("h", 6379)], password: "s" }],
  [
    "redis+sentinel://a,b:1,[::1]:2/primary",
    { mode: "sentinel", nodes: [node("a", 26_379), node("b", 1), node("::1", 2)], name: "primary" },
  ],
  [
    "rediss+sentinel://u:%40%2F:x@a/my%20primary/3?sentinel_username=s&sentinel_password=%26",
    {
      ...{ mode: "sentinel", tls: true, nodes: [node("a", 26_379)], name: "my primary", db: 3 },
      ...{ username: "u", password: "@/:x", sentinelUsername: "s", sentinelPassword: "&" },
    },
  ],
  ["redis+sentinel://a/p?sentinel_password=x", { mode: "sentinel", name: "p", sentinelPassword: "x" }],
  [
    "redis+cluster://u:p@a,b:7/0",
    { mode: "cluster", nodes: [node("a", 6379), node("b", 7)], username: "u", password: "p" },
  ],
])("%s", (url, expected) => {
  const nodes = [node("a", 26_379)];
  expect(parseRedisUrl(url)).toEqual({ ...nothing, tls: false, nodes, ...expected, url });
});
