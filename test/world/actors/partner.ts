import { ApiError, Client, IntegrityError } from "../../../proxy/site/client/client.ts";
import { CopyFolder, CopyState } from "../../../scripts/copy/copy-folder.ts";
import { publishedIndex } from "../../../scripts/copy/index-check.ts";
import { syncOnce } from "../../../scripts/copy/sync.ts";
import { generateKey } from "../../../snapshots/keys/keys.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { type Kernel, must, Process } from "../kernel/kernel.ts";
import type { Store } from "../kernel/store.ts";
import type { Action } from "../plan.ts";
import type { World } from "../world.ts";
import { address } from "./gate.ts";
import { openProxy } from "./readers.ts";
import { policyText, key as publisher } from "./witness.ts";

const key = generateKey(() => 7);
const id = "0123456789abcdef";

/** Puts the key of all partners into a store. */
export function admitPartners({ now }: Kernel, store: Store): void {
  const issuedAt = new Date(now).toISOString();
  const record = { id, owner: "partner", plan: "aegis", secretHash: sha256(key), issuedAt };
  store.set(layout.key(id), seal(record));
}

/** Keeps a copy of the archive, run after run, each of which may be killed, and its machine with it. */
export async function syncAgain(world: World, process: Process, { choices }: Action) {
  const { kernel, judge } = world;
  const folder = `/world/copy-${process.name}`;
  const pause = [20_000, 600_000, 20_000_000][choices[0]! % 3]!;
  // One proxy at least looked into the store before each run.
  const proxy = new Process(`${process.name}-proxy`, process.draw, process.ahead);
  const opened = await kernel.call(process, proxy, () => openProxy(world, proxy, choices[1]! % 2));
  for (let round = 0; round < 4; round += 1) {
    if (opened) await kernel.call(process, proxy, opened.look);
    const run = new Process(`${process.name}.${round}`, process.draw, process.ahead);
    run.slowDisk = true;
    kernel.start(kernel.now, run, () => syncInto(world, run, folder));
    if (process.draw(2)) kernel.at(kernel.now + process.draw(3000), run, () => kernel.kill(run));
    await run.over;
    if (run.state === "killed" && process.draw(2)) {
      kernel.note(`${process.name} loses its power`);
      kernel.disk.powerCut(folder, process.draw);
    }
    requireWhole(world, folder);
    // More often than not there is something new then.
    const { length } = judge.commits;
    for (let waits = 0; waits < 60 && judge.commits.length === length; waits += 1)
      await kernel.wait(process, process.draw(pause));
  }
  opened?.close();
}

async function syncInto(world: World, process: Process, folder: string) {
  const { kernel, plan, judge } = world;
  const copy = await CopyFolder.open(folder);
  const trusted = plan.signed ? (plan.witnessed ? policyText : verifierText(publisher)) : undefined;
  try {
    const client = new Client({ url: address, key, maxBytes: 2 ** 23 });
    const published = publishedIndex({ url: address, key });
    const quiet = { say: () => {}, progress: () => {} };
    const { how, commit } = await syncOnce({ client, published, copy, trusted, ...quiet });
    kernel.note(`${process.name} has commit ${commit}: ${how}`);
  } catch (error) {
    kernel.note(`${process.name} fails: ${error}`);
    // One proxy may be behind another.
    const isBehind =
      /Commits never go back|The signed log ends with commit|witness|The service is far behind/.test(
        `${error}`,
      );
    const documented = error instanceof ApiError && (isBehind || !(error instanceof IntegrityError));
    must("every error is a documented one", documented || judge.thieves.size > 0, () => `${error}`);
  } finally {
    await copy.close();
  }
}

/** Whatever happened, who reads the copy finds one whole published snapshot, or none. */
function requireWhole({ kernel: { disk }, judge }: World, folder: string): void {
  const [state, archive] = [disk.text(`${folder}/state.json`), disk.text(`${folder}/archive.ndjson`)];
  must("a copy has both of its files", (state === undefined) === (archive === undefined));
  if (state === undefined) return;
  must("a copy says what it is", /^\{.*\}\n$/.test(state), () => state);
  const { snapshotId, archiveRoot } = CopyState.parse(JSON.parse(state));
  const content = judge.contentOf(snapshotId);
  const text = content.lines.map((line) => `${line}\n`).join("");
  must("a copy is whole", archive === text, () => `${folder}, which should be ${content.name}`);
  const commit = judge.commits.find((each) => each.commit.entry.snapshotId === snapshotId)?.commit;
  const same = !commit || commit.entry.archiveRoot === archiveRoot;
  must("a copy has the root of its snapshot", same, () => archiveRoot);
}
