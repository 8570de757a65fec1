import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { validate } from "@actions/languageservice";
import { describe, expect, test } from "vitest";
import { TextDocument } from "vscode-languageserver-textdocument";
import { parse } from "yaml";
import { z } from "zod";
import { statementsOf } from "../helpers/publish/policies.ts";

const folder = new URL("../../.github/workflows/", import.meta.url);
const workflows = [
  ...readdirSync(folder).map((name) => ({ file: name, name })),
  // It takes the place of the other.
  { file: "../deploy/publish-parts.yml", name: "publish.yml" },
].map(({ file, name }) => ({ file, name, text: readFileSync(new URL(file, folder), "utf8") }));

/** The actions in use at the commits that were looked up in their repositories, and their inputs in use. */
const actions: Record<string, { sha: string; version: string; inputs: readonly string[] }> = {
  "actions/checkout": {
    sha: "3d3c42e5aac5ba805825da76410c181273ba90b1",
    version: "v7.0.1",
    inputs: ["persist-credentials"],
  },
  "actions/setup-node": {
    sha: "820762786026740c76f36085b0efc47a31fe5020",
    version: "v7.0.0",
    inputs: ["node-version"],
  },
  "actions/upload-artifact": {
    sha: "bbbca2ddaa5d8feaa63e36b76fdaad77386f024f",
    version: "v7.0.0",
    inputs: ["name", "path", "if-no-files-found", "retention-days"],
  },
  "actions/attest": {
    sha: "1e69f48acb82d1966a394da916b4c1698aa569d6",
    version: "v4.2.2",
    inputs: ["subject-name", "subject-digest", "subject-path", "predicate-type", "predicate-path"],
  },
  "aws-actions/configure-aws-credentials": {
    sha: "e6de054238d6b7531b4efff3b6587d9aade6a06c",
    version: "v6.2.3",
    inputs: ["role-to-assume", "role-session-name", "aws-region"],
  },
};

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
        const action = actions[`${owner}/${name}`];
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
    const known = actions[name];
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
      expect(readFileSync(new URL(`../../${file}`, folder), "utf8")).toContain("ignore-scripts=true\n");
  });

  test("assumes a role that trusts this very workflow", () => {
    const wanted = [...text.matchAll(/role-to-assume: \$\{\{ vars\.([A-Z]+)_ROLE_ARN \}\}$/gm)];
    const trusted = wanted.map(([, role]) => {
      const file = new URL(`../deploy/trust-${role!.toLowerCase()}.json`, folder);
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
