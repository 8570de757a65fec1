import { collectDefaultMetrics, Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { Status } from "../../../schemas/envelopes.ts";
import { deployed } from "../../helpers/http/deployed.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { until } from "../../helpers/http/proxy-client.ts";
import { publishArchive } from "../../helpers/publish/records.ts";

const list = "/api/v1/scores";
const archive = "/api/v1/markets/historical";

async function samples(metrics: Registry, name: string) {
  const text = await metrics.getSingleMetricAsString(name);
  const lines = text.split("\n").filter((line) => line.startsWith(name));
  return new Map(
    lines.map((line) => {
      const [, labels = "", value] = /^\w+(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      return [labels, Number(value)];
    }),
  );
}

let proxy: TestProxy;
beforeEach(async () => {
  proxy = await startTestProxy();
});
afterEach(() => proxy.stop());

describe("metrics", () => {
  test("count requests by route, method, status and code, and nothing of the client's own spelling", async () => {
    const key = await proxy.issue({ quota: 1 });
    await proxy.get(`${list}/aave`);
    await proxy.get(`${list}/SECRET`);
    await proxy.get("/SECRET");
    await proxy.get(list, { method: "PROPFIND" });
    await proxy.get(`${list}?SECRET=1`);
    for (let n = 0; n < 2; n += 1) await proxy.as(key)(archive);
    await proxy.raw("GET SECRET\r\n\r\n");
    await until(
      "eight series of http_requests_total",
      async () => (await samples(proxy.metrics, "http_requests_total")).size >= 8,
    );
    const counted = await samples(proxy.metrics, "http_requests_total");
    const of = (route: string, status: number, code = "", method = "GET") =>
      counted.get(`route="${route}",method="${method}",status="${status}",code="${code}"`);
    expect(of(`${list}/:slug`, 200)).toBe(1);
    expect(of(`${list}/:slug`, 404, "PROTOCOL_NOT_FOUND")).toBe(1);
    expect(of("none", 404, "NOT_FOUND")).toBe(1);
    expect(of(list, 405, "METHOD_NOT_ALLOWED", "other")).toBe(1);
    expect(of(list, 400, "INVALID_PARAMETER")).toBe(1);
    expect(of(archive, 200)).toBe(1);
    expect(of(archive, 429, "QUOTA_EXCEEDED")).toBe(1);
    expect(of("none", 400, "BAD_REQUEST", "other")).toBe(1);
    expect(await proxy.metrics.metrics()).not.toMatch(/SECRET|prs_live_|PROPFIND|127\.0\.0\.1|acme/);
    expect(await proxy.metrics.metrics()).toContain(
      `http_request_duration_seconds_count{route="${archive}"} 2`,
    );
  });

  test("tell snapshot, age, index, caches, polls and the quota store", async () => {
    await proxy.get(list);
    await proxy.get(list);
    await proxy.as(await proxy.issue())(archive);
    const status: Status = (await proxy.get("/api/v1/status")).json();
    const ageOf = (time: string) => (proxy.clock.now - Date.parse(time)) / 1000;
    const readings = {
      prs_snapshot_commit: 1,
      prs_snapshot_age_seconds: 12 * 3600,
      prs_publish_age_seconds: 12 * 3600,
      prs_newest_score_age_seconds: ageOf(status.newestUpdatedAt),
      prs_newest_market_age_seconds: ageOf(status.newestResolvedAt),
      prs_quota_store_up: 1,
    };
    for (const [name, value] of Object.entries(readings))
      expect([name, await proxy.measured(name)]).toEqual([name, value]);
    expect(await proxy.measured("prs_index_bytes")).toBeGreaterThan(100);
    const caches = await samples(proxy.metrics, "prs_cache_requests_total");
    expect(caches.get('cache="public",outcome="hit"')).toBe(1);
    expect(caches.get('cache="public",outcome="miss"')).toBe(1);
    expect(caches.get('cache="private",outcome="miss"')).toBeGreaterThan(0);
    const sizes = await samples(proxy.metrics, "prs_cache_bytes");
    expect(sizes.get('cache="private"')).toBeGreaterThan(100);
    await publishArchive(proxy.storage, { bri: 710 });
    await until(
      "the metrics to show commit 2",
      async () => (await proxy.measured("prs_snapshot_commit")) === 2,
    );
    const polls = await samples(proxy.metrics, "prs_polls_total");
    expect(polls.get('task="snapshot",outcome="success"')).toBeGreaterThan(1);
    expect(polls.get('task="keys",outcome="success"')).toBeGreaterThan(1);
  });

  test("tell no age of what there is not, and let an alarm ring", async () => {
    await using empty = await startTestProxy({ empty: true });
    const ages = (await empty.metrics.getMetricsAsJSON()).filter(({ name }) => /^prs_\w+_age_/.test(name));
    expect(Object.fromEntries(ages.map(({ name, values }) => [name, values.length]))).toEqual({
      prs_snapshot_age_seconds: 0,
      prs_newest_score_age_seconds: 0,
      prs_newest_market_age_seconds: 0,
      prs_publish_age_seconds: 0,
      prs_poll_age_seconds: 1,
    });
    // The alarm NotReady asks for this.
    expect(await empty.measured("prs_snapshot_commit")).toBe(0);
    await publishArchive(empty.storage);
    await until(
      "an age of the snapshot",
      async () => (await empty.measured("prs_snapshot_age_seconds")) === 12 * 3600,
    );
  });

  test("stand in OPERATING.md, all of them", async () => {
    const table = /<!-- metrics:.*-->\n(.*)<!-- \/metrics -->/s.exec(deployed("OPERATING.md"))?.[1] ?? "";
    const told = [...table.matchAll(/`((?:http|prs)_\w+)`/g)].map(([, name]) => name);
    const known = (await proxy.metrics.getMetricsAsJSON()).map(({ name }) => name);
    expect(told.sort()).toEqual(known.sort());
  });

  describe("in .github/deploy/", () => {
    const alarms: {
      alert: string;
      expr: string;
      for?: string;
      annotations: { summary: string; do: string };
    }[] = parse(deployed("alarms.yml")).groups[0].rules;
    const panels: { id: number; targets: { expr: string }[] }[] = JSON.parse(
      deployed("dashboard.json"),
    ).panels;
    const shown = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

    /** What an expression asks for that no process tells: metrics, and labels of those. */
    function unknownIn(expression: string, registries: readonly Registry[]): string[] {
      const asked = [...expression.matchAll(/\b((?:http|prs|process|nodejs)_\w+)(?:\{([^}]*)\})?/g)];
      const labels = new Set(["le", "instance"]);
      const unknown = asked.flatMap(([, name = "", selector = ""]) => {
        const base = name.replace(/_bucket$/, "");
        const metric = registries.map((registry) => registry.getSingleMetric(base)).find((each) => each);
        if (!metric) return [name];
        const own: readonly string[] = Reflect.get(metric, "labelNames") ?? [];
        for (const label of own) labels.add(label);
        return [...selector.matchAll(/(\w+)[=!]/g)]
          .map(([, label]) => label!)
          .filter((label) => !own.includes(label));
      });
      const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = ""]) =>
        names.split(", "),
      );
      return [...unknown, ...grouped.filter((name) => !labels.has(name))];
    }

    test("are all known to alarms and dashboard, with their labels; each alarm says what to do", async () => {
      const usual = new Registry();
      collectDefaultMetrics({ register: usual });
      const registries = [proxy.metrics, usual];
      for (const expression of [...alarms.map(({ expr }) => expr), ...shown])
        expect([expression, unknownIn(expression, registries)]).toEqual([expression, []]);
      expect(
        unknownIn('sum by (rute) (rate(http_requests_total{stat="5"}[5m])) / prs_age', registries),
      ).toEqual(["stat", "prs_age", "rute"]);
      expect(new Set(alarms.map(({ alert }) => alert)).size).toBe(14);
      for (const { annotations } of alarms)
        expect(annotations).toEqual({
          summary: expect.stringMatching(/\.$/),
          do: expect.stringMatching(/\.$/),
        });
    });

    test("have their alarms told in OPERATING.md, in the same words", () => {
      const rows = alarms.map(({ alert, expr, for: time = "at once", annotations }) => {
        const summary = annotations.summary.replace("{{ $labels.instance }}", "A proxy");
        return `| ${alert} | \`${expr}\` | ${time} | ${summary} ${annotations.do} |\n`;
      });
      expect(deployed("OPERATING.md")).toContain(`|---|---|---|---|\n${rows.join("")}<!-- /alarms -->`);
    });

    test("are on the dashboard, all of them", async () => {
      const known = (await proxy.metrics.getMetricsAsJSON()).map(({ name }) => name);
      expect(known.filter((name) => !shown.join(" ").includes(name))).toEqual([]);
      expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    });
  });
});
