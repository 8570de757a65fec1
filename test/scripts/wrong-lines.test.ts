import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { issueKey } from "../../snapshots/keys/keys.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { type programs, runCommand } from "../helpers/publish/commands.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const publish = "snapshot publish --sources sources --store store";

beforeAll(async () => {
  const storage = directoryStorage(join(folder, "store"));
  await issueKey(storage, { plan: "aegis", owner: "acme" }, new Date("2026-03-01T12:00:00.000Z"));
});

describe("a wrong command line ends with exit code 2, says why and shows the usage", () => {
  test.for<[line: string, reason: string | RegExp]>([
    ["keys issue --plan aegis --owner o\u001b[2J --store s", /control/],
    ["keys", /issue, list, revoke, rotate/],
    ["keys drop --store s", /issue, list, revoke, rotate/],
    ["keys list", /--store is missing/],
    ["keys issue --plan aegis --store s", /--owner is missing/],
    ["keys issue --plan free --owner o --store s", /developer, aegis/],
    ["keys issue --plan aegis --owner o --quota 0 --store s", /--quota/],
    ["keys issue --plan aegis --owner o --expires 2030-02-30 --store s", /--expires/],
    ["keys issue --plan aegis --owner o --expires 2020-01-01 --store s", /past/],
    ["keys list --owner o --store s", /owner/],
    ["keys revoke 0123456789abcdef x --store s", /"x"/],
    ["keys revoke --store s", /16 hex/],
    ["keys rotate --store s", /rotate takes .* 16 hex/],
    ["keys rotate 0123456789abcdef --grace 24 --store s", /--grace/],
    ["keys rotate 0123456789abcdef --grace 721h --store s", /at most 30d/],
    ["keys rotate 0123456789abcdef --store store", /no key 0123456789abcdef/],
    ["keys revoke 0123456789abcdef --store store", /no key 0123456789abcdef/],
    [
      "snapshot",
      /one of contract, check, publish, verify, list, diff, rollback, export, signing-key, witness, gc\b/,
    ],
    ["snapshot publsh --store store", "signing-key, witness, gc. Did you mean publish?"],
    ["snapshot publish --store store", "--sources is missing"],
    [`${publish} again`, 'unexpected argument "again"'],
    [`${publish} --api-url api.example.org`, "--api-url (or API_URL) must be"],
    [`${publish} --site-url cdn/x`, "--site-url (or SITE_URL) must be"],
    [`${publish} --license MIT`, "--license must be the licence's address"],
    [`${publish} --cite-as ${"x".repeat(2001)}`, "--cite-as must be a text of"],
    [`${publish} --contact us`, "--contact (or CONTACT) must be an https address"],
    ["snapshot verify --store store --dry-run", "--dry-run"],
    ["snapshot verify --store store --repair", "--sources is missing"],
    ["snapshot verify --store store --resume", "--resume goes with --repair"],
    ["snapshot list --store", "--store"],
    ["snapshot list --stroe store", "unknown option --stroe. Did you mean --store?"],
    [`${publish} --plan 2`, "--plan needs --run"],
    [`${publish} --plan 2 --join --run r`, "--plan and --join do not go together"],
    [`${publish} --run r`, "--run goes with --plan, --part or --join"],
    [`${publish} --workers 2 --run r`, "--workers names its run itself"],
    [`${publish} --plan 0 --run r`, "--plan must be an integer from 1 to 1000"],
    [`${publish} --part NO_SUCH_INDEX --run r`, "--part must be an integer from 1 to 1000"],
    [`${publish} --join --run a/b`, "--run must have 1 to 100 letters"],
    [`${publish} --workers 2 --dry-run`, "--dry-run goes with a run of one part"],
  ])("npm run %s", async ([line, reason]) => {
    const [name, ...args] = line.split(" ");
    const { code, stdout, stderr } = await runCommand(name as keyof typeof programs, args, { from: folder });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(reason);
    expect(stderr).toMatch(new RegExp(`^Usage:\\s+npm run ${name} -- `, "m"));
  });
});
