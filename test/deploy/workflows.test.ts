import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { validate } from "@actions/languageservice";
import { describe, expect, test } from "vitest";
import { TextDocument } from "vscode-languageserver-textdocument";
import { parse } from "yaml";
import { z } from "zod";
import { statementsOf } from "../helpers/publish/policies.ts";

const root = new URL("../..", import.meta.url).pathname;
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

// What the scripts of their jobs do is in sessions/jobs.txt.
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
