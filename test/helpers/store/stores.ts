import { join } from "node:path";
import { beforeAll, describe } from "vitest";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { createS3Client, type S3Environment, s3Storage } from "../../../snapshots/store/backends/s3.ts";
import { parseS3Location, type Storage } from "../../../snapshots/store/storage.ts";
import { createBucket, s3Environment } from "../servers/ceph.ts";
import { testFolder } from "./test-folder.ts";

/** New stores of one kind; everything here is for the inside of tests. */
export interface Stores {
  /** A local folder for the suite's other files. */
  folder: string;
  /** How a user would name a new, empty store. */
  newLocation(): string;
  /** What a process needs in its environment to open it; credentials aside. */
  environment: S3Environment;
  /** A new, empty store. */
  newStore(): Storage;
}

const s3 = s3Environment();
const kinds = [
  { kind: "a directory", environment: undefined },
  ...(s3 ? [{ kind: "S3", environment: s3 }] : []),
];

/** Describes a suite over each kind of store at hand; `%s` in the name stands for the kind. */
export function describeStores(name: string, suite: (stores: Stores) => void): void {
  for (const { kind, environment } of kinds) {
    describe(name.replace("%s", kind), () => {
      const folder = testFolder();
      let base: string;
      let opened = 0;
      beforeAll(async () => {
        base = environment ? await createBucket(environment) : join(folder, "stores");
      });
      const newLocation = () => {
        opened += 1;
        return `${base}/store-${opened}`;
      };
      const newStore = () => {
        const location = newLocation();
        return environment
          ? s3Storage(parseS3Location(location)!, createS3Client(environment))
          : directoryStorage(location);
      };
      suite({ folder, newLocation, environment: environment ?? {}, newStore });
    });
  }
}
