import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { validate } from "@actions/languageservice";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TextDocument } from "vscode-languageserver-textdocument";
import { parse } from "yaml";
import { z } from "zod";
import { sampleDefaults, writeSample } from "../../snapshots/sample/sample.ts";
import { statementsOf } from "../helpers/publish/policies.ts";
import { type LocalServer, serveLocally } from "../helpers/servers/programs.ts";
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

test.each(["publisher", "gc", "proxy"])(
  "the role of the %s trusts the workflows that assume it, on the main branch of this repository alone",
  (role) => {
    const from = "token.actions.githubusercontent.com";
    const assuming = workflows.filter(({ text }) =>
      text.includes(`vars.${role.toUpperCase()}_ROLE_ARN }}\n`),
    );
    const jobs = new Set(
      assuming.map(({ name }) => `GITHUB_REPOSITORY/.github/workflows/${name}@refs/heads/main`),
    );
    const StringEquals = {
      [`${from}:aud`]: ["sts.amazonaws.com"],
      [`${from}:sub`]: ["repo:GITHUB_REPOSITORY:ref:refs/heads/main"],
      [`${from}:job_workflow_ref`]: expect.toSatisfy((told) => isDeepStrictEqual(new Set(told), jobs)),
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

test("snapshot-job.mjs publishes, puts the counts into the run's summary, and leaves nothing of a key", async () => {
  const [sources, temporary] = [join(folder, "sources"), join(folder, "runner")];
  await writeSample({ ...sampleDefaults, directory: sources, markets: 100, protocols: 5, days: 2 });
  await mkdir(temporary);
  const [text, summary, output] = [
    keyText("prs.example/scores"),
    join(folder, "s.md"),
    join(folder, "o.txt"),
  ];
  const signing = { SIGNING_KEY_TEXT: text, RUNNER_TEMP: temporary };
  const files = { GITHUB_STEP_SUMMARY: summary, GITHUB_OUTPUT: output };
  const statement = join(folder, "statement.json");
  const command = [
    "publish",
    "--sources",
    sources,
    "--store",
    join(folder, "store"),
    "--statement",
    statement,
  ];
  const parameters = [".ci/snapshot-job.mjs", join(folder, "job"), ...command];
  expect(await run(process.execPath, parameters, { ...signing, ...files })).toMatchObject({ code: 0 });
  const report = await readFile(join(folder, "job/report.json"), "utf8");
  const { snapshotId, uploaded } = JSON.parse(report);
  const told = await readFile(summary, "utf8");
  expect(told).toMatch(/^### snapshot publish: done\n/);
  for (const row of ["outcome | published", "commit | 1", "counts.markets | 100", "signature | signed"])
    expect(told).toContain(`| ${row} |`);
  expect(told).toContain(`| uploaded.objects | ${uploaded.objects} |`);
  expect(await readFile(output, "utf8")).toBe(`snapshot=${snapshotId}\n`);
  // What the attestation says.
  expect(JSON.parse(await readFile(statement, "utf8"))).toMatchObject({ snapshotId, commit: 1 });
  expect(await readdir(temporary)).toEqual([]);
  expect(report + (await readFile(join(folder, "job/log.txt"), "utf8"))).not.toContain(text);
});

/** The script of a step in the first job of a workflow. */
function scriptOf(file: string, isIt: (step: z.infer<typeof Step>) => unknown): string {
  const { jobs } = Workflow.parse(parse(workflows.find(({ name }) => name === file)!.text));
  return Object.values(jobs)[0]!.steps.find(isIt)!.run!;
}

describe("what the jobs make of a command's end", () => {
  const programs = join(folder, "bin");
  const argumentsFile = join(folder, "arguments.txt");
  const outputFile = join(folder, "output.txt");
  const summaryFile = join(folder, "told.md");
  const environment = {
    PATH: `${programs}:${process.env.PATH}`,
    GITHUB_STEP_SUMMARY: summaryFile,
    GITHUB_OUTPUT: outputFile,
    RUNNER_TEMP: folder,
    ARGUMENTS_FILE: argumentsFile,
    CODE: "0",
  };

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
    [0, "published", 0, "snapshot=abc\n"],
    [0, "unchanged", 0, "snapshot=abc\n"],
    [0, "dry-run", 0, ""],
    [1, "faulty", 1, ""],
    [2, "", 2, ""],
    [3, "", 3, ""],
    [4, "", 0, ""],
    [5, "", 5, ""],
    [6, "", 6, ""],
  ])(
    "exit code %i, outcome %j: ends with %i, and names %j to attest",
    async (code, outcome, expected, named) => {
      for (const file of [summaryFile, outputFile]) await writeFile(file, "");
      const faults = expected === 0 ? [] : [{ key: "private/a", reason: "is rotten" }];
      const REPORT = JSON.stringify({ outcome, snapshotId: "abc", faults });
      const job = [".ci/snapshot-job.mjs", join(folder, "table"), "publish"];
      const done = await run(process.execPath, job, { ...environment, CODE: String(code), REPORT });
      expect(done.code).toBe(expected);
      expect(done.stdout).toContain(`::${expected === 0 ? "notice" : "error"} title=snapshot publish::`);
      // Between the two marks the runner takes no line for a command of its own.
      const [, token] = /^::stop-commands::(\S+)$/m.exec(done.stdout) ?? [];
      expect(done.stdout).toContain(`\n::${token}::\n`);
      expect(done.stderr).toContain("::warning::from the sources");
      const why = ["    private/a: is rotten", "    ::warning::from the sources"];
      const lines = (await readFile(summaryFile, "utf8")).split("\n");
      expect(lines.filter((line) => line.startsWith("    "))).toEqual(expected === 0 ? [] : why);
      expect(await readFile(outputFile, "utf8")).toBe(named);
    },
  );

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
    ["verify.yml", "Verify", {}, ["verify", "--store", where.STORE], ""],
  ])("%s hands on what it was given, and only this", async ([file, step, variables, args, more]) => {
    const text = scriptOf(file, ({ name }) => name === step);
    const handedOn = async (given: Record<string, string>) => {
      const env = { ...environment, ...where, ...given };
      expect(await run("bash", ["-e", "-c", text], env)).toMatchObject({ code: 0 });
      // The first four are npm's own.
      return (await readFile(argumentsFile, "utf8")).trimEnd().split("\n").slice(4);
    };
    const nothing = Object.fromEntries(Object.keys(variables).map((name) => [name, ""]));
    expect(await handedOn(nothing)).toEqual([...args, "--json"]);
    const words = more.split(" ").flatMap((word) => word.replaceAll("_", " ") || []);
    expect(await handedOn(variables)).toEqual([...args, ...words, "--json"]);
  });
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
  let server: LocalServer;
  beforeAll(async () => {
    const answers = createServer((_, response) => {
      requests += 1;
      response.writeHead(answer.status).end(answer.body);
    });
    server = await serveLocally(answers);
  });
  afterAll(() => server.stop());
  const check = (url: string, maxAge = "3600") =>
    run(process.execPath, [".ci/freshness.mjs", url, maxAge, "2", "0.01"]);

  test.each<[what: string, status: number, age: number | string | null, stale: unknown, told: RegExp]>([
    ["is content with a service that is fresh", 200, 600, false, /^fresh: .* \d+ s ago/],
    ["fails on an old publish run", 200, 4000, false, /, \d+ s ago; the limit is 3600 s/],
    ["fails on a proxy that calls itself stale", 200, 10, true, /stale/],
    ["fails on a status without the word stale", 200, 10, null, /stale/],
    ["fails on no publish run", 200, null, false, /at null/],
    ["fails on a time that is none", 200, "soon", false, /at soon/],
    ["fails on an error", 503, 10, false, /answers 503/],
    ["fails on a redirect", 302, 10, false, /answers 302|cannot be read/],
  ])("%s, if after a second look", async (_, status, age, stale, told) => {
    const checkedAt = typeof age === "number" ? new Date(Date.now() - age * 1000).toISOString() : age;
    answer = { status, body: JSON.stringify({ checkedAt, stale }) };
    requests = 0;
    const { code, stdout } = await check(server.url);
    const fresh = stdout.startsWith("fresh: ");
    if (!fresh) expect(stdout).toMatch(/^::error title=The service is not fresh::/);
    expect(stdout).toMatch(told);
    expect([code, requests]).toEqual(fresh ? [0, 1] : [1, 2]);
  });

  test("fails on a page that is no JSON, when nothing answers, and when it is not told whom to ask", async () => {
    answer = { status: 200, body: "<html>" };
    for (const url of [server.url, "http://127.0.0.1:1/"])
      expect(await check(url)).toMatchObject({ code: 1, stdout: expect.stringContaining("cannot be read") });
    expect(await check("", "")).toMatchObject({ code: 2 });
  });
});
