import { execFile } from "node:child_process";
import { hash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { validate } from "@actions/languageservice";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TextDocument } from "vscode-languageserver-textdocument";
import { parse } from "yaml";
import { z } from "zod";
import { sampleDefaults, writeSample } from "../../snapshots/sample/sample.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { statementsOf } from "../helpers/publish/policies.ts";
import { publishRecords, recordsOf } from "../helpers/publish/records.ts";
import { keyText } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const root = new URL("../..", import.meta.url).pathname;
const folder = testFolder();
const definitions = new URL("../../.github/workflows/", import.meta.url);
const workflows = [
  ...readdirSync(definitions).map((name) => ({ file: name, name })),
  // It takes the place of the other.
  { file: "../deploy/publish-parts.yml", name: "publish.yml" },
].map(({ file, name }) => ({ file, name, text: readFileSync(new URL(file, definitions), "utf8") }));

/** The actions in use at the commits that were looked up in their repositories: version, commit, inputs in use. */
const actions = new Map(
  `
actions/checkout v7.0.1 3d3c42e5aac5ba805825da76410c181273ba90b1 persist-credentials
actions/setup-node v7.0.0 820762786026740c76f36085b0efc47a31fe5020 node-version
actions/upload-artifact v7.0.0 bbbca2ddaa5d8feaa63e36b76fdaad77386f024f name path if-no-files-found retention-days
actions/attest v4.2.2 1e69f48acb82d1966a394da916b4c1698aa569d6 \
  subject-name subject-digest subject-path predicate-type predicate-path
aws-actions/configure-aws-credentials v6.2.3 e6de054238d6b7531b4efff3b6587d9aade6a06c \
  role-to-assume role-session-name aws-region`
    .trim()
    .split("\n")
    .map((line) => line.split(/ +/))
    .map(([name, version, sha, ...inputs]) => [name!, { version, sha, inputs }]),
);

const Permissions = z.record(z.string(), z.enum(["read", "write", "none"]));
const Step = z.looseObject({ uses: z.string().optional(), run: z.string().optional() });
/** What every workflow must say: its rights, and how long a job may take. */
const Workflow = z.looseObject({
  on: z.record(z.string(), z.unknown()),
  permissions: Permissions,
  concurrency: z.looseObject({ group: z.string(), "cancel-in-progress": z.boolean() }),
  jobs: z.record(
    z.string(),
    z.looseObject({
      permissions: Permissions.optional(),
      "timeout-minutes": z.int().max(60),
      steps: z.array(Step),
    }),
  ),
});

/** Messages of GitHub's own language service about a workflow; it knows the inputs of the actions above. */
async function lint(text: string): Promise<string[]> {
  // A new name each time: the service remembers what it found under a name, whatever the text is now.
  const document = TextDocument.create(`file:///${randomUUID()}.yml`, "yaml", 1, text);
  const diagnostics = await validate(document, {
    actionsMetadataProvider: {
      async fetchActionMetadata({ owner, name }) {
        const action = actions.get(`${owner}/${name}`);
        const inputs = action?.inputs.map((input) => [input, { description: input }]) ?? [];
        return action && { name, description: name, inputs: Object.fromEntries(inputs) };
      },
    },
  });
  return diagnostics.map(({ message, range }) => `line ${range.start.line + 1}: ${message}`);
}

/** The faults of every `uses:` line: not pinned, pinned to something unknown, or with another version's name. */
function faultsOfPins(text: string): string[] {
  const lines = text.split("\n").filter((line) => /^\s*(- )?uses:/.test(line));
  return lines.filter((line) => {
    const [, name = "", sha, version] =
      /^\s*(?:- )?uses: ([\w-]+\/[\w-]+)@([0-9a-f]{40}) # (v[\d.]+)$/.exec(line) ?? [];
    const known = actions.get(name);
    return known?.sha !== sha || known?.version !== version || sha === undefined;
  });
}

const publish = workflows.find(({ name }) => name === "publish.yml")!;

describe.each(workflows)("$file", ({ name, text }) => {
  const workflow = Workflow.parse(parse(text));

  test("passes GitHub's language service", async () => {
    expect(await lint(text)).toEqual([]);
  });

  test("pins every action to a known commit and names its version", () => {
    expect(faultsOfPins(text)).toEqual([]);
    expect(text).toContain("uses:");
  });

  test("has no more rights than it needs", () => {
    expect(workflow.permissions).toEqual({ contents: "read" });
    const needs: [step: RegExp, rights: Record<string, string>][] = [
      [/configure-aws-credentials@/, { "id-token": "write" }],
      [/actions\/attest@/, { "id-token": "write", attestations: "write" }],
      [/docker push /, { packages: "write" }],
      [/gh release create /, { contents: "write" }],
    ];
    for (const { permissions, steps } of Object.values(workflow.jobs)) {
      const needed = needs.filter(([step]) => step.test(JSON.stringify(steps))).map(([, rights]) => rights);
      expect(permissions ?? { contents: "read" }).toEqual(Object.assign({ contents: "read" }, ...needed));
    }
    // Runs of that event have the repository's rights while they may run a stranger's code.
    expect(Object.keys(workflow.on)).not.toContain("pull_request_target");
  });

  test("runs no script of a package where it may ask for credentials", () => {
    for (const { permissions, steps } of Object.values(workflow.jobs)) {
      if (permissions?.["id-token"] !== "write") continue;
      const installs = steps.flatMap(({ run = "" }) => run.match(/^.*\bnp[mx]\b.*$/gm) ?? []);
      // A release installs in the build of its image alone, which has no credentials.
      const wanted = name === "release.yml" ? [] : ["npm ci --omit=dev --ignore-scripts"];
      expect(installs).toEqual(wanted);
    }
    // The same for whoever installs it by hand, and for `.ci/run`.
    for (const file of [".npmrc", ".ci/nodes/.npmrc"])
      expect(readFileSync(join(root, file), "utf8")).toContain("ignore-scripts=true\n");
  });

  test("assumes a role that trusts this very workflow", () => {
    const wanted = [...text.matchAll(/role-to-assume: \$\{\{ vars\.([A-Z]+)_ROLE_ARN \}\}$/gm)];
    const trusted = wanted.map(([, role]) => {
      const file = new URL(`../deploy/trust-${role!.toLowerCase()}.json`, definitions);
      return JSON.stringify(JSON.parse(readFileSync(file, "utf8")).Statement);
    });
    expect([...new Set(trusted)]).toHaveLength(text.includes("configure-aws-credentials") ? 1 : 0);
    for (const statement of trusted)
      expect(statement).toContain(`/.github/workflows/${name}@refs/heads/main"`);
  });

  test("holds no secret but the signing key, and no expression inside a script", () => {
    const signing = /SIGNING_KEY_TEXT: \$\{\{ secrets\.SIGNING_KEY \}\}/g;
    expect(text.search(signing) >= 0).toBe(["publish.yml", "export.yml"].includes(name));
    expect(text.replaceAll(signing, "")).not.toMatch(/secrets\b|AKIA|aws-secret-access-key/);
    for (const { steps } of Object.values(workflow.jobs)) {
      for (const { run = "" } of steps) expect(run).not.toContain("${{");
    }
  });
});

test("publish.yml runs one at a time, stops none half-way, and is not what its alarm depends on", () => {
  const [publishing, alarm] = ["publish.yml", "freshness.yml"].map((name) =>
    Workflow.parse(parse(workflows.find((each) => each.name === name)!.text)),
  );
  expect(publishing!.concurrency).toEqual({ group: "publish", "cancel-in-progress": false });
  for (const { on } of [publishing!, alarm!])
    expect(Object.keys(on)).toEqual(["schedule", "workflow_dispatch"]);
  expect(alarm!.on.schedule).not.toEqual(publishing!.on.schedule);
});

describe("the trust of GitHub's workflows", () => {
  const from = "token.actions.githubusercontent.com";

  test.each([
    ["publisher", ["publish", "export"]],
    ["gc", ["gc"]],
    ["proxy", ["verify"]],
  ])(
    "is in the workflows that need the role, on the main branch of this repository alone (%s)",
    (role, jobs) => {
      const workflow = (name: string) => `GITHUB_REPOSITORY/.github/workflows/${name}.yml@refs/heads/main`;
      const StringEquals = {
        [`${from}:aud`]: ["sts.amazonaws.com"],
        [`${from}:sub`]: ["repo:GITHUB_REPOSITORY:ref:refs/heads/main"],
        [`${from}:job_workflow_ref`]: jobs.map(workflow),
      };
      const statement = {
        Principal: { Federated: `arn:aws:iam::ACCOUNT_ID:oidc-provider/${from}` },
        Action: ["sts:AssumeRoleWithWebIdentity"],
        Condition: { StringEquals },
      };
      expect(statementsOf(`trust-${role}`)).toEqual([
        { Sid: expect.any(String), Effect: "Allow", ...statement },
      ]);
    },
  );
});

test("the linter and the check of pins find faults", async () => {
  expect(await lint(publish.text.replace("timeout-minutes:", "timeout-minuts:"))).not.toEqual([]);
  for (const wrong of ["@v7.0.1 ", "@4d3c42e5aac5ba805825da76410c181273ba90b1 "])
    expect(faultsOfPins(publish.text.replace(/@3d3c42\w+ /, wrong))).toHaveLength(1);
});

/** Runs a program in the project's folder, with these variables on top of the environment. */
function run(program: string, parameters: string[], environment: Record<string, string> = {}) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const options = { cwd: root, env: { ...process.env, ...environment } };
    execFile(program, parameters, options, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
    });
  });
}

describe("snapshot-job.mjs", () => {
  const summaryFile = join(folder, "summary.md");
  const job = async (command: string[], environment = {}) => {
    await rm(summaryFile, { force: true });
    const parameters = [".ci/snapshot-job.mjs", join(folder, "job"), ...command];
    const summary = { GITHUB_STEP_SUMMARY: summaryFile };
    const done = await run(process.execPath, parameters, { ...summary, ...environment });
    return { ...done, summary: await readFile(summaryFile, "utf8") };
  };

  test("publishes, and puts the counts into the run's summary", async () => {
    const sources = join(folder, "sources");
    await writeSample({ ...sampleDefaults, directory: sources, markets: 100, protocols: 5, days: 2 });
    const arguments_ = ["publish", "--sources", sources, "--store", join(folder, "store")];
    const output = join(folder, "output.txt");
    const statement = join(folder, "statement.json");
    const first = await job([...arguments_, "--statement", statement], { GITHUB_OUTPUT: output });
    expect(first).toMatchObject({ code: 0 });
    expect(first.summary).toMatch(/^### snapshot publish: done\n/);
    for (const row of ["outcome | published", "commit | 1", "counts.markets | 100", "counts.protocols | 5"]) {
      expect(first.summary).toContain(`| ${row} |`);
    }
    const report = JSON.parse(await readFile(join(folder, "job/report.json"), "utf8"));
    expect(first.summary).toContain(`| uploaded.objects | ${report.uploaded.objects} |`);

    // What the attestation says, and of what.
    const { snapshotId } = report;
    expect(await readFile(output, "utf8")).toBe(`snapshot=${snapshotId}\n`);
    const said = JSON.parse(await readFile(statement, "utf8"));
    const names = await readdir(sources, { recursive: true });
    const files = names.filter((name) => name.endsWith(".parquet")).toSorted();
    expect(said).toEqual({ sources: expect.anything(), snapshotId, commit: 1, checkpoint: null });
    expect(said.sources).toEqual(
      await Promise.all(
        files.map(async (name) => {
          const bytes = await readFile(join(sources, name));
          return { name, bytes: bytes.length, sha256: hash("sha256", bytes) };
        }),
      ),
    );

    // Signing makes a commit of its own.
    const text = keyText("prs.example/scores");
    const temporary = join(folder, "runner");
    await mkdir(temporary);
    const signing = { SIGNING_KEY_TEXT: text, RUNNER_TEMP: temporary };
    const signed = await job([...arguments_, "--sign-over", "1", "--statement", statement], signing);
    expect(signed.summary).toContain("| signature | signed |");
    const { checkpoint } = JSON.parse(await readFile(statement, "utf8"));
    expect(checkpoint).toMatch(/^prs\.example\/scores\n2\n[^\n]+\n\n— prs\.example\/scores /);
    // Nothing of the key stays on the machine.
    expect(await readdir(temporary)).toEqual([]);
    for (const file of ["report.json", "log.txt"])
      expect(await readFile(join(folder, "job", file), "utf8")).not.toContain(text);
  });

  test("fails with the command's exit code and shows why", async () => {
    const sources = join(folder, "empty-sources");
    await mkdir(sources);
    const refused = await job(["publish", "--sources", sources, "--store", join(folder, "store")]);
    expect(refused.code).toBe(3);
    expect(refused.stdout).toMatch(/^::error title=snapshot publish::the sources were refused/m);
    const reason = (await readFile(join(folder, "job/log.txt"), "utf8")).split("\n")[0]!;
    expect(reason).not.toBe("");
    expect(refused.summary).toContain(`    ${reason}\n`);
  });
});

/** The script of a step in the first job of a workflow. */
function scriptOf(file: string, isIt: (step: z.infer<typeof Step>) => unknown): string {
  const { jobs } = Workflow.parse(parse(workflows.find(({ name }) => name === file)!.text));
  return Object.values(jobs)[0]!.steps.find(isIt)!.run!;
}

test("ci.yml lists all packages, each with its licence", async () => {
  const command = scriptOf("ci.yml", ({ run }) => run?.startsWith("npm sbom "));
  expect(await run("bash", ["-ec", command], { RUNNER_TEMP: folder })).toMatchObject({ code: 0 });
  const { bomFormat, components } = JSON.parse(await readFile(join(folder, "sbom.cdx.json"), "utf8"));
  const { dependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const listed = components.map(({ name, version }: { name: string; version: string }) => [name, version]);
  expect([bomFormat, listed]).toEqual(["CycloneDX", expect.arrayContaining(Object.entries(dependencies))]);
  const free = components.filter(({ licenses = [] }: { licenses?: object[] }) => licenses.length === 0);
  expect(free).toEqual([]);
});

describe("what the jobs make of a command's end", () => {
  const programs = join(folder, "bin");
  const argumentsFile = join(folder, "arguments.txt");
  const job = [".ci/snapshot-job.mjs", join(folder, "table"), "publish"];
  const environment = (code: number) => ({
    PATH: `${programs}:${process.env.PATH}`,
    GITHUB_STEP_SUMMARY: join(folder, "ignored.md"),
    RUNNER_TEMP: folder,
    ARGUMENTS_FILE: argumentsFile,
    CODE: String(code),
  });

  beforeAll(async () => {
    await mkdir(programs);
    // In npm's place: losing a commit, say, cannot be had on demand.
    const npm = `#!/bin/sh
printf "%s\\n" "$@" >"$ARGUMENTS_FILE"
echo "::warning::from the sources" >&2
printf "%s" "$REPORT"
exit "$CODE"
`;
    await writeFile(join(programs, "npm"), npm, { mode: 0o755 });
  });

  test.each([
    [0, 0, "notice"],
    [1, 1, "error"],
    [2, 2, "error"],
    [3, 3, "error"],
    [4, 0, "notice"],
    [5, 5, "error"],
  ])("exit code %i ends the job with %i", async (code, expected, kind) => {
    const done = await run(process.execPath, job, environment(code));
    expect(done.code).toBe(expected);
    expect(done.stdout).toContain(`::${kind} title=snapshot publish::`);
    // Between the two marks the runner takes no line for a command of its own.
    const [, token] = /^::stop-commands::(\S+)$/m.exec(done.stdout) ?? [];
    expect(done.stdout).toContain(`\n::${token}::\n`);
    expect(done.stderr).toContain("::warning::from the sources");
  });

  test.each(["published", "unchanged", "dry-run"])("names a snapshot to attest: %s", async (outcome) => {
    const output = join(folder, `output-${outcome}.txt`);
    await writeFile(output, "");
    const report = { REPORT: JSON.stringify({ outcome, snapshotId: "abc" }), GITHUB_OUTPUT: output };
    await run(process.execPath, job, { ...environment(0), ...report });
    expect(await readFile(output, "utf8")).toBe(outcome === "dry-run" ? "" : "snapshot=abc\n");
  });

  const where = { SOURCES: "s3://sources", STORE: "s3://store" };
  const publish = ["publish", "--sources", where.SOURCES, "--store", where.STORE];
  const stated = [...publish, "--statement", join(folder, "publish/statement.json")];
  const numbers = { ALLOW_REMOVED: "12", ALLOW_CHANGED: "3; touch x", ALLOW_ADDED: "4", SIGN_OVER: "5" };
  const ofNumbers = "--allow-removed 12 --allow-changed 3;_touch_x --allow-added 4 --sign-over 5";

  test.for<[file: string, step: string, variables: Record<string, string>, args: string[], more: string]>([
    [
      "publish.yml",
      "Publish",
      { ...numbers, RESUME: "yes", DRY_RUN: "yes" },
      stated,
      `${ofNumbers} --resume --dry-run`,
    ],
    [
      "export.yml",
      "Export",
      { SNAPSHOT: "3; touch x" },
      ["export", "--store", where.STORE],
      "--snapshot 3;_touch_x",
    ],
    ["gc.yml", "Collect", { DRY_RUN: "yes" }, ["gc", "--store", where.STORE], "--dry-run"],
  ])("%s hands on what it was given, and only this", async ([file, step, variables, args, more]) => {
    const text = scriptOf(file, ({ name }) => name === step);
    const handedOn = async (given: Record<string, string>) => {
      const env = { ...environment(0), ...where, ...given };
      expect(await run("bash", ["-e", "-c", text], env)).toMatchObject({ code: 0 });
      // The first four are npm's own.
      return (await readFile(argumentsFile, "utf8")).trimEnd().split("\n").slice(4);
    };
    const nothing = Object.fromEntries(Object.keys(variables).map((name) => [name, ""]));
    expect(await handedOn(nothing)).toEqual([...args, "--json"]);
    const words = more.split(" ").map((word) => word.replaceAll("_", " "));
    expect(await handedOn(variables)).toEqual([...args, ...words, "--json"]);
  });
});

test("verify.yml names in its summary what is at fault", async () => {
  const store = join(folder, "rotten");
  const storage = directoryStorage(store);
  await publishRecords(storage, recordsOf(0, 40));
  const [page] = await readdir(join(store, layout.page.prefix));
  await writeFile(join(store, layout.page.prefix, page!), "rotten");
  const text = scriptOf("verify.yml", ({ name }) => name === "Verify");
  const summary = join(folder, "verify.md");
  const temporary = join(folder, "verifying");
  await mkdir(temporary);
  const environment = { STORE: store, RUNNER_TEMP: temporary, GITHUB_STEP_SUMMARY: summary };
  const { code } = await run("bash", ["-ec", text], environment);
  expect(code).toBe(1);
  const told = await readFile(summary, "utf8");
  expect(told).toMatch(/^### snapshot verify: something is at fault; OPERATING.md/);
  expect(told).toContain(`    ${layout.page.prefix}${page}: its content does not match its name`);
});

test(".ci/container removes its files when the image cannot be built", async () => {
  const [programs, temporary] = [join(folder, "builders"), join(folder, "builder")];
  for (const made of [programs, temporary]) await mkdir(made);
  for (const [name, line] of Object.entries({ "apt-get": "exit 0", buildah: 'echo "$*"; [ "$5" != build ]' }))
    await writeFile(join(programs, name), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
  const environment = { PATH: `${programs}:${process.env.PATH}`, TMPDIR: temporary };
  const { code, stdout } = await run(".ci/container", [], environment);
  expect([code, stdout]).toEqual([1, expect.stringMatching(/ build .* --tag prs \.$/m)]);
  expect(await readdir(temporary)).toEqual([]);
});

describe("freshness.mjs", () => {
  let answer: { status: number; body: string };
  let requests = 0;
  const server = createServer((_, response) => {
    requests += 1;
    response.writeHead(answer.status).end(answer.body);
  });
  beforeAll(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  afterAll(() => void server.close());

  const check = (path = "/api/v1/status", maxAge = "3600") => {
    requests = 0;
    const { port } = server.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}${path}`;
    return run(process.execPath, [".ci/freshness.mjs", url, maxAge, "2", "0.01"]);
  };
  const status = (ageSeconds: number, stale: unknown = false) => ({
    status: 200,
    body: JSON.stringify({ checkedAt: new Date(Date.now() - ageSeconds * 1000).toISOString(), stale }),
  });

  test("is content with a service that is fresh", async () => {
    answer = status(600);
    expect(await check()).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^fresh: .* \d+ s ago/),
    });
    expect(requests).toBe(1);
  });

  test.each([
    ["an old publish run", () => status(4000), /, \d+ s ago; the limit is 3600 s/],
    ["a proxy that calls itself stale", () => status(10, true), /stale/],
    ["a status without the word stale", () => status(10, null), /stale/],
    ["no publish run", () => ({ status: 200, body: '{"checkedAt":null,"stale":false}' }), /at null/],
    ["a time that is none", () => ({ status: 200, body: '{"checkedAt":"soon","stale":false}' }), /at soon/],
    ["an error", () => ({ status: 503, body: "{}" }), /answers 503/],
    ["a page that is no JSON", () => ({ status: 200, body: "<html>" }), /cannot be read/],
    ["a redirect", () => ({ status: 302, body: "" }), /answers 302|cannot be read/],
  ])("fails on %s, after a second look", async (_, make, message) => {
    answer = make();
    const { code, stdout } = await check();
    expect(stdout).toMatch(/^::error title=The service is not fresh::/);
    expect(stdout).toMatch(message);
    expect(code).toBe(1);
    expect(requests).toBe(2);
  });

  test("fails when nothing answers, and when it is not told whom to ask", async () => {
    const closed = await run(process.execPath, [".ci/freshness.mjs", "http://127.0.0.1:1/", "60", "1"]);
    expect(closed).toMatchObject({ code: 1, stdout: expect.stringContaining("cannot be read") });
    expect(await run(process.execPath, [".ci/freshness.mjs", "", ""])).toMatchObject({ code: 2 });
  });
});
