import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { defaultLimits, readConfig } from "../../proxy/config.ts";
import { feedLimits } from "../../schemas/rooms/feed.ts";
import { exitCodes } from "../../scripts/cli.ts";
import { deployed, installedIn, settingsOf, variablesOf } from "../helpers/http/deployed.ts";
import { findProgram } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const root = join(import.meta.dirname, "../..");
const files = readdirSync(join(root, ".github/deploy"), { recursive: true, encoding: "utf8" }).sort();
const services = files.filter((file) => file.endsWith(".service"));
const timers = files.filter((file) => file.endsWith(".timer"));
const sandbox = "prs-.service.d/sandbox.conf";
const analyze = findProgram("systemd-analyze");
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
/** With names filled in, as a bucket's must be. */
const proxyEnvironment = deployed("prs-proxy.env", { STORE_BUCKET: "store" });
const one = (unit: string, name: string) => settingsOf(deployed(unit)).get(name)?.join() ?? "";

describe.skipIf(!analyze)("systemd", () => {
  const folder = testFolder();
  const units = join(folder, "systemd/system");
  beforeAll(() => {
    mkdirSync(units, { recursive: true });
    // As the README says, except for /etc and the checkout, which is here.
    const [, install] = /\n *git clone .*\n([\s\S]*?)\n *```/.exec(deployed("README.md")) ?? [];
    execFileSync("bash", ["-ec", install!.replaceAll("/etc/", `${folder}/`)], { cwd: root });
    // Only what is there.
    for (const file of [...services, ...timers, sandbox].map((name) => join(units, name)))
      writeFileSync(file, readFileSync(file, "utf8").replaceAll(installedIn, root));
  });
  const run = (...args: string[]) =>
    spawnSync(analyze!, args, {
      encoding: "utf8",
      env: { PATH: process.env.PATH, SYSTEMD_UNIT_PATH: `${units}:` },
    });

  test("gets the units where it looks for them, and root alone the secrets", () => {
    const installed = readdirSync(units, { recursive: true, encoding: "utf8" });
    expect(installed.sort()).toEqual([...services, ...timers, sandbox, dirname(sandbox)].sort());
    const secrets = readdirSync(join(folder, "prs"));
    expect(secrets.sort()).toEqual(files.filter((file) => file.endsWith(".env")));
    for (const file of ["", ...secrets])
      expect(statSync(join(folder, "prs", file)).mode & 0o077, file).toBe(0);
  });

  test("takes every unit, and finds no word wrong in it", () => {
    const { status, stderr } = run("verify", "--man=no", ...services, ...timers);
    // It may also speak of the machine's own units.
    expect([status, stderr.split("\n").filter((line) => line.includes("prs-"))]).toEqual([0, []]);
    writeFileSync(join(units, "prs-wrong.service"), "[Service]\nExecStart=/bin/true\nProtectSistem=strict\n");
    expect(run("verify", "--man=no", "prs-wrong.service").stderr).toMatch(/prs-wrong.*ProtectSistem/);
  });

  test.each(services)("rates the sandbox of %s as tight", (unit) => {
    // In tenths: 0 is perfect, and 96 what a unit has without the sandbox. Left are the network, and memory that V8
    // makes executable.
    expect(run("security", "--offline=true", "--threshold=20", unit)).toMatchObject({ status: 0 });
  });
});

describe("the services", () => {
  test("run what npm runs, from the installed folder", () => {
    const command = (script: string) => `${installedIn}/node_modules/.bin/${scripts[script]}`;
    for (const [unit, name] of services.map((unit) => /^prs-(\w+)\.service$/.exec(unit)!)) {
      expect(one(unit, "EnvironmentFile")).toBe(`/etc/prs/prs-${name}.env`);
      // deployment.test.ts runs the words that follow.
      const words = name === "proxy" ? command("proxy") : `${command("snapshot")} ${name} `;
      expect(`${one(unit, "ExecStart")} `).toContain(words);
    }
    expect(one(sandbox, "WorkingDirectory")).toBe(installedIn);
  });

  test("count a lost race of publishers as success, and no other failure", () => {
    const races = ["prs-export.service", "prs-publish.service"];
    for (const unit of services)
      expect(one(unit, "SuccessExitStatus"), unit).toBe(races.includes(unit) ? String(exitCodes.lost) : "");
  });

  test("are started by their timers", () => {
    expect(timers.map((timer) => timer.replace("timer", "service"))).toEqual(
      services.filter((unit) => one(unit, "Type") === "oneshot"),
    );
  });

  test("give the proxy the time and the memory that its variables need", () => {
    const config = readConfig(variablesOf(proxyEnvironment));
    expect(Number(one("prs-proxy.service", "TimeoutStopSec"))).toBeGreaterThan(config.shutdownSeconds);
    const [, gibibytes] = /^(\d+)G$/.exec(one("prs-proxy.service", "MemoryMax")) ?? [];
    const share = (Number(gibibytes) * 2 ** 30) / (config.webConcurrency * config.cacheBytes);
    expect(share).toBeGreaterThanOrEqual(8);
  });
});

describe("the environment files", () => {
  const named = (file: string) => [...deployed(file).matchAll(/^#?([A-Z_0-9]+)=/gm)].map(([, name]) => name!);
  const ofAws = ["AWS_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

  /** Whether a value that makes no sense makes any difference. */
  function isRead(name: string): boolean {
    const read = (env: Record<string, string>) =>
      JSON.stringify(readConfig({ SNAPSHOT_STORE: "store", ...env }, 1e9));
    try {
      return read({ [name]: " " }) !== read({});
    } catch {
      return true;
    }
  }

  test("name what the proxy reads and OPERATING.md tells, all of it", () => {
    const names = named("prs-proxy.env").filter((name) => !ofAws.includes(name));
    expect(names.filter((name) => !isRead(name))).toEqual([]);
    expect(isRead("CACHE_SIZE")).toBe(false);
    const operating = deployed("OPERATING.md");
    const [, table = ""] = /^### Configuration of the proxy\n([\s\S]*?)\n##/m.exec(operating) ?? [];
    const rows = [...table.matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|/gm)].flatMap(([, first]) =>
      [...first!.matchAll(/[A-Z_]+/g)].map(([name]) => name),
    );
    expect(names.toSorted()).toEqual(rows.toSorted());
  });

  test("say the defaults behind #", () => {
    const text = proxyEnvironment;
    const defaults = [...text.matchAll(/^#([A-Z_]+)=(.+)$/gm)].map(([, name, value]) => [name!, value!]);
    const given = variablesOf(text);
    expect(readConfig({ ...given, ...Object.fromEntries(defaults) })).toEqual(readConfig(given));
    expect(defaults.length).toBeGreaterThan(2);
  });

  test.each(["prs-publish", "prs-export", "prs-gc", "prs-verify"])(
    "%s.env names what its unit passes on, whose commits count, and where S3 is",
    (name) => {
      const command = one(`${name}.service`, "ExecStart");
      const passed = [...command.matchAll(/\$\{(\w+)\}/g)].map(([, each]) => each);
      const asking = ["TRUSTED_KEYS", "WITNESS_POLICY", "CHECKPOINT_FILE"];
      const own = ["prs-gc", "prs-verify"].includes(name) ? asking : [];
      expect(named(`${name}.env`)).toEqual([...passed, ...own, ...ofAws]);
    },
  );
});

describe("the configuration of nginx", () => {
  const seconds = (file: string, directive: string) =>
    Number(new RegExp(`^\\s*${directive} (\\d+)s;$`, "m").exec(deployed(file))?.[1]);

  test("waits longer than the proxy does, and lets go of a connection sooner", () => {
    const { answerSeconds, stalledSeconds } = defaultLimits;
    for (const directive of ["proxy_read_timeout", "proxy_send_timeout", "send_timeout"])
      expect(seconds("nginx-balancer.conf", directive)).toBeGreaterThan(
        Math.max(answerSeconds, stalledSeconds, feedLimits.pingSeconds),
      );
    const { keepAliveSeconds } = readConfig({ SNAPSHOT_STORE: "store" });
    expect(seconds("nginx-balancer.conf", "keepalive_timeout")).toBeLessThan(keepAliveSeconds);
  });
});

describe("the container", () => {
  // A line that ends in \\ continues on the next.
  const dockerfile = deployed("Dockerfile").replace(/^#.*\n|\\\n/gm, "");
  /** What follows an instruction, each time, in the last stage or in another text. */
  const of = (name: string, text = dockerfile.slice(dockerfile.lastIndexOf("\nFROM "))) =>
    [...text.matchAll(new RegExp(`^${name} +(.*)$`, "gm"))].map(([, rest]) => rest!);
  const copied = of("COPY", dockerfile).filter((rest) => !rest.startsWith("--from"));
  const copies = copied.flatMap((rest) => rest.split(" ").slice(0, -1));

  test("is made from tagged images, of what the lock file names, without the development's packages", () => {
    const images = of("FROM", dockerfile).map((rest) => rest.split(" ")[0]!);
    expect(images.filter((image) => !/^scratch$|:(?!latest)[\w.-]+$/.test(image))).toEqual([]);
    const [install = ""] = of("RUN", dockerfile);
    expect(install).toMatch(/^npm ci --omit=dev --ignore-scripts /);
    expect(of("SHELL", dockerfile)).toEqual([expect.stringContaining('"pipefail"')]);
    expect(of("ADD", dockerfile)).toEqual([]);
  });

  test("takes in what is published and what the ignore file lets through, and nothing else", () => {
    const through = [...deployed("Dockerfile.dockerignore").matchAll(/^!(.+)$/gm)].map(([, name]) => name!);
    expect(copies.toSorted()).toEqual(through.toSorted());
    const known = execFileSync("git", ["ls-files", ...copies], { cwd: root, encoding: "utf8" }).split("\n");
    const isKnown = (name: string) => known.some((file) => file === name || file.startsWith(`${name}/`));
    expect(copies.filter((name) => !isKnown(name))).toEqual([]);
    expect(copies).not.toContain("test");
    expect(deployed("Dockerfile.dockerignore")).toMatch(/^\*$/m);
  });

  test("runs what npm runs, as a user that is not root, and asks itself whether it is ready", () => {
    const [entry, command] = [of("ENTRYPOINT"), of("CMD")].map(([json]) => JSON.parse(json!) as string[]);
    expect([...entry!, ...command!].join(" ")).toBe(`node_modules/.bin/${scripts.proxy}`);
    expect(of("USER")).toEqual([expect.stringMatching(/^[1-9]\d*:[1-9]\d*$/)]);
    const [health = ""] = of("HEALTHCHECK");
    const [program, , code = ""] = JSON.parse(/CMD (\[.*\])$/.exec(health)![1]!);
    expect([program, code]).toEqual([entry![0], expect.stringContaining("/readyz")]);
    expect(() => new Function(code)).not.toThrow();
    const pairs = of("ENV")[0]!.split(" ");
    const given = Object.fromEntries(pairs.map((pair) => pair.split("=") as [string, string]));
    expect(given.PORT).toBe(of("EXPOSE")[0]);
    expect(readConfig({ SNAPSHOT_STORE: "store", ...given })).toMatchObject({ host: "0.0.0.0", port: 8080 });
  });
});

interface Service {
  image: string;
  build?: { context: string; dockerfile: string };
  command?: string[];
  ports?: string[];
  environment?: Record<string, string>;
  volumes?: string[];
}

describe("compose.yml", () => {
  const filled = deployed("compose.yml").replaceAll(/\$\{\w+:\?\}/g, "PASSWORD");
  const { services: ofCompose }: { services: Record<string, Service> } = parse(filled, { merge: true });
  const composed = Object.entries(ofCompose);

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
