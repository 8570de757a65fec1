import { totalmem } from "node:os";
import { describe, expect, test } from "vitest";
import { clientAccount, isPrivate, parseTrust } from "../../proxy/access/identity.ts";
import { readConfig } from "../../proxy/config.ts";

const store = { SNAPSHOT_STORE: "store" };

describe("readConfig(env)", () => {
  test("needs the store alone and has documented defaults", () => {
    expect(readConfig({ ...store, PATH: "/bin", PORT: "" }, 8e9)).toEqual({
      host: "127.0.0.1",
      port: 8080,
      metricsPort: undefined,
      webConcurrency: 1,
      snapshotStore: "store",
      publicOrigin: undefined,
      quotaStore: ".local/quota.sqlite",
      quotaOnFailure: "local",
      trustProxy: undefined,
      pollSeconds: 5,
      staleAfterSeconds: 93_600,
      cacheBytes: 1e9,
      cacheDiskBytes: 2 ** 32,
      logLevel: "info",
      keepAliveSeconds: 620,
      shutdownSeconds: 10,
    });
  });

  test("lets workers share the memory for the cache, and takes less than is there", () => {
    expect(readConfig({ ...store, WEB_CONCURRENCY: "4" }, 8e9).cacheBytes).toBe(2.5e8);
    expect(readConfig({ ...store, CACHE_BYTES: "2000000" }, 8e9).cacheBytes).toBe(2e6);
    expect(readConfig(store, 1).cacheBytes).toBe(1_048_576);
    expect(readConfig(store).cacheBytes).toBeLessThan(totalmem());
  });

  test("reads what is given", () => {
    const config = readConfig({
      ...store,
      PORT: "0",
      PUBLIC_ORIGIN: "https://cdn.example.org/scores",
      API_URL: "https://scores.example.org",
      CONTACT: "keys@example.org",
      TRUST_PROXY: "10.0.0.0/8, fd00::/8",
      QUOTA_ON_FAILURE: "closed",
      WEB_CONCURRENCY: "4",
      METRICS_PORT: "9090",
      QUOTA_STORE: "rediss://:SECRET@redis.example.org:6380/1",
    });
    expect(config).toMatchObject({ port: 0, quotaOnFailure: "closed", webConcurrency: 4, metricsPort: 9090 });
    expect(config.quotaStore).toMatch(/^rediss:/);
    expect(config.publicOrigin?.href).toBe("https://cdn.example.org/scores");
    expect(config.apiUrl?.href).toBe("https://scores.example.org/");
    expect(config.contact).toBe("mailto:keys@example.org");
    expect(readConfig({ ...store, CONTACT: "https://example.org/keys?of=us" }).contact).toBe(
      "https://example.org/keys?of=us",
    );
    expect(config.trustProxy).toHaveProperty("networks.rules.length", 2);
  });

  const wrong = `
SNAPSHOT_STORE gs://bucket
PORT 65536  0x50  1e3  8080\x20
METRICS_PORT 0
PUBLIC_ORIGIN cdn.example.org  ftp://cdn.example.org  https://user:SECRET@cdn.example.org  https://example.org/?SECRET
API_URL scores.example.org  https://scores.example.org/?SECRET
CONTACT us  http://example.org/keys  https://user:SECRET@example.org  mailto:keys@  javascript:alert(1)
CONTACT https://example.org/${"x".repeat(1000)}
QUOTA_STORE postgres://:SECRET@localhost  redis://:SECRET@:port  redis://:SECRET@a,b  redis-cluster://:SECRET@a
QUOTA_STORE redis+sentinel://:SECRET@a,b  redis+sentinel://:SECRET@a,b/primary/name
QUOTA_STORE redis+sentinel://a/primary?password=SECRET  redis+cluster://:SECRET@a/1  redis+cluster://:SECRET@a:70000
QUOTA_STORE redis+cluster://:SECRET@b@a  redis+sentinel://:SECRET@a,,b/primary
QUOTA_ON_FAILURE maybe
TRUST_PROXY true  loopback  10.0.0.0  10.0.0.0/33  0.0.0.0/0  ::ffff:10.0.0.0/8  10.0.0.0/8,  10.0.0.0/8,::/0  -1  100
TRUST_PROXY 10.0.0.0/8;fd00::/8  fd00::/129  ::/129  10/8  host/8  fd00::/0  ::ffff:a00:1/104
POLL_SECONDS 0
STALE_AFTER_SECONDS soon
CACHE_BYTES 256MB
LOG_LEVEL loud
KEEP_ALIVE_SECONDS 0
SHUTDOWN_SECONDS -1
WEB_CONCURRENCY 0  auto`;
  test.each(wrong.slice(1).split("\n"))("refuses by name, no value repeated: %s", (line) => {
    const [, name = "", values = ""] = /^(\w+) (.*)$/.exec(line) ?? [];
    for (const value of values.split("  ")) {
      const read = () => readConfig({ ...store, [name]: value });
      expect(read, value).toThrow(expect.objectContaining({ code: "CONFIG" }));
      expect(read, value).toThrow(new RegExp(`^${name} must [^\\n]*\\.$`));
      expect(read, value).not.toThrow(/SECRET/);
    }
  });

  test("names every bad variable at once", () => {
    expect(() => readConfig({ PORT: "x", TRUST_PROXY: "100", LOG_LEVEL: "y" })).toThrow(
      /^PORT .*\nSNAPSHOT_STORE is missing; .*\nTRUST_PROXY must be a number of hops or networks .*\nLOG_LEVEL /,
    );
  });
});

describe("clientAccount(peer, forwarded, trust)", () => {
  const nobody = { hops: 0 };
  const networks = parseTrust("10.0.0.0/8,fd00::/8");
  test.each([
    ["198.51.100.1", ["192.0.2.1"], nobody, "198.51.100.1"],
    ["10.0.0.1", ["192.0.2.1"], { hops: 1 }, "192.0.2.1"],
    ["10.0.0.1", ["spoofed, 192.0.2.1"], { hops: 1 }, "192.0.2.1"],
    ["10.0.0.1", ["198.51.100.9, 192.0.2.1"], { hops: 1 }, "192.0.2.1"],
    ["10.0.0.1", ["198.51.100.9, 192.0.2.1"], { hops: 2 }, "198.51.100.9"],
    ["10.0.0.1", ["198.51.100.9", "192.0.2.1"], { hops: 1 }, "192.0.2.1"],
    ["10.0.0.1", ["192.0.2.1"], { hops: 9 }, "192.0.2.1"],
    ["10.0.0.1", [], { hops: 1 }, "10.0.0.1"],
    ["10.0.0.1", ["", "rubbish"], { hops: 2 }, "10.0.0.1"],
    ["10.0.0.1", ["192.0.2.1, 10.2.3.4"], networks, "192.0.2.1"],
    ["::ffff:10.0.0.1", ["192.0.2.1"], networks, "192.0.2.1"],
    // All addresses of a /64, in any spelling, are one account.
    ...["2001:db8:0:7::9", "2001:DB8:0:7:9::", "2001:0db8:0000:0007:9:ffff:0:1", "2001:db8::7:0:0:9:1"].map(
      (spelled) => [spelled, [], nobody, "2001:db8:0:7::/64"] as const,
    ),
    ["fd00::1", ["2001:db8::1"], networks, "2001:db8:0:0::/64"],
    ["11.0.0.1", ["192.0.2.1"], networks, "11.0.0.1"],
    ["10.0.0.1", ["192.0.2.1, 192.0.2.2"], networks, "192.0.2.2"],
    ["fe80::1%eth0", [], nobody, "fe80:0:0:0::/64"],
    ["10.0.0.1", ["0x7f.1"], { hops: 1 }, "10.0.0.1"],
    ["10.0.0.1", ["192.0.2.1:4711"], { hops: 1 }, "192.0.2.1"],
    ["10.0.0.1", ["[2001:db8::1]:4711"], { hops: 1 }, "2001:db8:0:0::/64"],
    ["10.0.0.1", ["[2001:db8::1]"], { hops: 1 }, "2001:db8:0:0::/64"],
    ["10.0.0.1", ["64:ff9b::192.0.2.1"], { hops: 1 }, "64:ff9b:0:0::/64"],
    ...["0177.0.0.1", "unknown", "203.0.113.1:", "[2001:db8::1]x", "for=203.0.113.1", "203.0.113.01", ""].map(
      (useless) => ["10.0.0.1", ["203.0.113.9", useless], { hops: 1 }, "10.0.0.1"] as const,
    ),
    ...["::ffff:127.0.3.1", "::FFFF:7f00:301", "0:0:0:0:0:ffff:7f00:0301"].map(
      (spelled) => ["10.0.0.1", [spelled], { hops: 1 }, "127.0.3.1"] as const,
    ),
    ["10.0.0.1", ["::127.0.3.1"], { hops: 1 }, "0:0:0:0::/64"],
    ["10.0.0.1", ["203.0.113.10, 203.0.113.11"], networks, "203.0.113.11"],
    ["10.0.0.1", ["198.51.100.7, 203.0.113.10, 10.0.0.11"], networks, "203.0.113.10"],
    [undefined, ["192.0.2.1"], { hops: 1 }, "unknown"],
  ] as const)("%s with %j", (peer, forwarded, trust, account) => {
    expect(clientAccount(peer, forwarded, trust)).toBe(account);
  });

  test("trusts as many hops as two digits say, and networks of a single address", () => {
    expect(parseTrust("99")).toEqual({ hops: 99 });
    const trust = parseTrust("10.0.0.9/32, fd00::9/128");
    const accounts = ["10.0.0.9", "10.0.0.8", "fd00::9", "fd00::8"].map((peer) =>
      clientAccount(peer, ["192.0.2.1"], trust),
    );
    expect(accounts).toEqual(["192.0.2.1", "10.0.0.8", "192.0.2.1", "fd00:0:0:0::/64"]);
  });

  test("private peers are those that may be load balancers", () => {
    const peers = ["127.0.0.1", "10.1.1.1", "::1", "fd00::1", "192.0.2.1", "8.8.8.8", undefined];
    expect(peers.map(isPrivate)).toEqual([true, true, true, true, false, false, false]);
  });
});
