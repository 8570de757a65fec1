import { execFile } from "node:child_process";
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { copyFiles, filesAt } from "../helpers/publish/copies.ts";
import { findProgram, nodeOptions } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// The steps of release.yml as bash runs them, in a copy of the project whose version was raised as CONTRIBUTING.md
// says.

const root = new URL("../..", import.meta.url).pathname;
const folder = testFolder();
const copy = join(folder, "project");
const temporary = join(folder, "runner");
const programs = join(folder, "bin");
const run = promisify(execFile);
const name = "protocol-risk-score-service-1.1.0";
const digest = `sha256:${"5".repeat(64)}`;

const environment = {
  ...process.env,
  PATH: `${programs}${delimiter}${process.env.PATH}`,
  ...{ GIT_CONFIG_GLOBAL: "/dev/null", npm_config_offline: "true" },
  ...{ GIT_AUTHOR_NAME: "A", GIT_AUTHOR_EMAIL: "a@example.org" },
  ...{ GIT_COMMITTER_NAME: "A", GIT_COMMITTER_EMAIL: "a@example.org" },
};
const inCopy = (program: string, ...args: string[]) => run(program, args, { cwd: copy, env: environment });

const readJobs = async () => parse(await readFile(join(root, ".github/workflows/release.yml"), "utf8")).jobs;

/** Runs a step of the job that releases, for a tag. */
async function step(title: string, tag = "v1.1.0") {
  const { release } = await readJobs();
  const { run: script } = release.steps.find((one: { name?: string }) => one.name === title);
  const env = {
    ...environment,
    RUNNER_TEMP: temporary,
    GITHUB_REF_NAME: tag,
    GITHUB_REPOSITORY: "Owner/Scores",
    GITHUB_ACTOR: "me",
    GITHUB_OUTPUT: join(folder, "output.txt"),
    TOKEN: "a-token",
    CALLS: join(folder, "calls.txt"),
  };
  return run("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", script], { cwd: copy, env });
}

describe.skipIf(!findProgram("jq"))("release.yml", () => {
  beforeAll(async () => {
    const files = filesAt(".").filter((file) => !file.startsWith("test/"));
    await copyFiles(copy, files);
    const changelog = join(copy, ".github/CHANGELOG.md");
    const text = await readFile(changelog, "utf8");
    const heading = "## Unreleased\n";
    expect(text.split(heading)).toHaveLength(2);
    const newer = `${heading}\n## 1.1.0 - 2026-12-01\n\n### Added\n\n- More.\n`;
    await writeFile(changelog, `${text.replace(heading, newer)}\n## 0.9.0 - 2026-01-01\n\nOlder.\n`);
    for (const line of ["init --quiet", "add --all", "commit --quiet --message Begin"])
      await inCopy("git", ...line.split(" "));
    // In place of programs that reach other machines.
    await mkdir(programs);
    const fakes = {
      docker: `if [ "$1" = inspect ]; then echo "ghcr.io/owner/scores@${digest}"; fi; if [ "$1" = login ]; then cat >>"$CALLS"; fi`,
      gh: "true",
    };
    for (const [program, does] of Object.entries(fakes)) {
      const lines = ["#!/bin/bash", `echo "${program} $*" >>"$CALLS"`, does];
      await writeFile(join(programs, program), `${lines.join("\n")}\n`, { mode: 0o755 });
    }
  });
  beforeEach(async () => {
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary);
  });

  test("runs all tests before, and shows a release whose two parts are attested", async () => {
    const { test: tests, release } = await readJobs();
    expect([tests.steps.at(-1).run, release.needs]).toEqual([".ci/run", "test"]);
    const [tarball, image, last] = release.steps.slice(-3);
    for (const { uses } of [tarball, image]) expect(uses).toMatch(/^actions\/attest@/);
    expect(tarball.with["subject-path"]).toMatch(/runner\.temp \}\}\/release\/\*\.tar\.gz$/);
    expect(image.with["subject-digest"]).toContain("steps.image.outputs.digest");
    expect(last.name).toBe("Release");
  });

  test("npm version commits the new version and nothing else, and tags the commit", async () => {
    await inCopy("npm", "version", "1.1.0");
    const { stdout: changed } = await inCopy("git", "show", "--format=%D", "--numstat", "HEAD");
    expect(changed).toMatch(/tag: v1\.1\.0\b[^\n]*\n\n2\t2\tpackage-lock\.json\n1\t1\tpackage\.json\n$/);
  });

  test("the tarball has the notes of its version, is the same each time, and runs", async () => {
    await step("Make the tarball");
    const file = join(temporary, "release", `${name}.tar.gz`);
    const [bytes, notes] = [await readFile(file), await readFile(join(temporary, "notes.md"), "utf8")];
    expect(notes).toContain("### Added\n");
    expect(notes).not.toMatch(/^## |Older/m);
    await rm(join(temporary, "release"), { recursive: true });
    await step("Make the tarball");
    expect(bytes.equals(await readFile(file))).toBe(true);
    await run("tar", ["-xzf", file, "-C", folder]);
    await symlink(join(root, "node_modules"), join(folder, name, "node_modules"));
    const contract = [...nodeOptions, "scripts/snapshot.ts", "contract"];
    const { stdout } = await run(process.execPath, contract, { cwd: join(folder, name) });
    expect(stdout).toContain("resolved_at");
    for (const needed of [".npmrc", "package-lock.json", ".github/deploy/prs-proxy.service"])
      await readFile(join(folder, name, needed));
  });

  test.each([
    ["v1.1.1", "package.json has version 1.1.0"],
    ["1.1.0", "package.json has version 1.1.0"],
  ])("a tag %s that names another version ends the release", async (tag, reason) => {
    await expect(step("Make the tarball", tag)).rejects.toMatchObject({ code: 1, stderr: `${reason}\n` });
  });

  test("the image is pushed under its version, and its digest is what is attested", async () => {
    await step("Make the tarball");
    await step("Build the image and push it");
    await step("Release");
    const image = "ghcr.io/owner/scores:1.1.0";
    const calls = (await readFile(join(folder, "calls.txt"), "utf8")).trimEnd().split("\n");
    expect(calls).toEqual([
      `docker build --file .github/deploy/Dockerfile --tag ${image} .`,
      "docker login ghcr.io --username me --password-stdin",
      "a-token",
      `docker push ${image}`,
      `docker inspect --format {{index .RepoDigests 0}} ${image}`,
      `gh release create v1.1.0 --verify-tag --notes-file ${temporary}/notes.md ${temporary}/release/${name}.tar.gz`,
    ]);
    expect(await readFile(join(folder, "output.txt"), "utf8")).toBe(
      `name=ghcr.io/owner/scores\ndigest=${digest}\n`,
    );
  });

  test("a version of which the changelog says nothing ends the release", async () => {
    await inCopy("npm", "version", "1.1.1");
    const stderr = ".github/CHANGELOG.md says nothing of 1.1.1\n";
    await expect(step("Make the tarball", "v1.1.1")).rejects.toMatchObject({ code: 1, stderr });
  });
});
