import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { readConfig } from "../../proxy/config.ts";
import { deployed } from "../helpers/http/deployed.ts";

const root = join(import.meta.dirname, "../..");

describe("compose.yml", () => {
  const Service = z.looseObject({
    image: z.string(),
    build: z.looseObject({ context: z.string(), dockerfile: z.string() }).optional(),
    command: z.array(z.string()).optional(),
    ports: z.array(z.string()).optional(),
    environment: z.record(z.string(), z.string()).optional(),
    volumes: z.array(z.string()).optional(),
  });
  const filled = deployed("compose.yml").replaceAll(/\$\{\w+:\?\}/g, "PASSWORD");
  const composed = Object.entries(
    z.object({ services: z.record(z.string(), Service) }).parse(parse(filled, { merge: true })).services,
  );

  test("shuts its own containers in, and opens the ports of CDN and balancer alone", () => {
    const own = composed.filter(([, { build }]) => build);
    expect(own.map(([name]) => name)).toEqual(["proxy-1", "proxy-2", "sample", "publisher", "keys"]);
    for (const [name, { build, ...service }] of own) {
      expect([name, service]).toMatchObject([
        name,
        { read_only: true, tmpfs: ["/tmp"], cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] },
      ]);
      expect(existsSync(join(root, ".github/deploy", build!.context, build!.dockerfile))).toBe(true);
    }
    const open = composed.filter(([, { ports }]) => ports).map(([name]) => name);
    expect(open).toEqual(["cdn", "balancer"]);
    expect(filled).not.toMatch(/privileged|docker\.sock|network_mode/);
    for (const [name, { image, build }] of composed)
      if (!build) expect([name, image]).toEqual([name, expect.stringMatching(/:[\w.-]*\d[\w.-]*$/)]);
  });

  test("gives proxies and CDN the store to read alone, and no credentials to it", () => {
    const mounts = composed.flatMap(([name, { volumes = [] }]) =>
      volumes.filter((volume) => volume.startsWith("store:")).map((volume) => [name, volume.endsWith(":ro")]),
    );
    const writing = { publisher: false, keys: false };
    expect(Object.fromEntries(mounts)).toEqual({ cdn: true, "proxy-1": true, "proxy-2": true, ...writing });
    expect(filled).not.toMatch(/AWS_|ROOT_PASSWORD|SECRET/);
  });

  test("configures the proxies, and runs commands that there are", () => {
    for (const [name, { environment = {}, command = [] }] of composed) {
      if (name.startsWith("proxy-"))
        expect(readConfig({ HOST: "0.0.0.0", ...environment })).toMatchObject({ snapshotStore: "/store" });
      const [script] = command.filter((word) => word.startsWith("scripts/"));
      if (script) expect(existsSync(join(root, script)), script).toBe(true);
    }
    const calls = composed.map(([, { command = [] }]) => command.join(" "));
    expect(calls).toContain("scripts/snapshot.ts publish --sources /sources/sample --store /store");
    expect(calls).toContain("scripts/keys.ts issue --plan aegis --owner me --store /store");
  });

  test("replaces addresses in the configuration of nginx that stand there", () => {
    const nginx = composed.filter(([, { image }]) => image.startsWith("nginx"));
    expect(nginx).toHaveLength(2);
    for (const [, { command = [], volumes = [] }] of nginx) {
      const file = /^\.\/(.+):\/given\.conf:ro$/.exec(volumes[0]!)![1]!;
      const replaced = [...command.at(-1)!.matchAll(/-e s\/([^/]+)\/([^/]+)\//g)];
      const text = deployed(file, Object.fromEntries(replaced.map(([, from, to]) => [from!, to!])));
      expect(text.replace(/^\s*#.*$/gm, "")).not.toMatch(/\b10\.0\.0\./);
      for (const [, mounted] of text.matchAll(/^\s*root (\S+);$/gm))
        expect(volumes).toContain(`store:${mounted}:ro`);
    }
  });
});
