import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deployed } from "../http/deployed.ts";
import { endProcess, findProgram, freePort, startServer } from "./programs.ts";

/** nginx's program, or undefined where it is not installed; under CI that is an error. */
export const findNginx = () => findProgram("nginx");

/** A running nginx. */
export interface Nginx {
  port: number;
  /** Lines of its error log so far. */
  logged: string[];
  stop(): Promise<void>;
}

// Refused, or reset by the kernel since the proxy ended before it had accepted them; 32 is a write after the reset.
const notAccepted =
  /failed \((?:32|104|111): .* while (?:connecting to|sending request to|reading response header from) upstream/;

/** Errors logged so far, without those for connections that a proxy never accepted: nginx asks the other one then. */
export const errorsOf = ({ logged }: Nginx) =>
  logged.filter((line) => line.includes("[error]") && !notAccepted.test(line));

/** Serves the `public/` tree of a bucket on a free loopback port, as deployed. `bucket` is its address, by path. */
export const startCdn = (program: string, bucket: URL) =>
  startNginx(program, (port) =>
    deployed("nginx-cdn.conf", {
      "listen 80;": `listen 127.0.0.1:${port};`,
      "server 10.0.0.20:7480;": `server ${bucket.host};`,
      // An empty folder, in which nginx makes no more than one folder, as in the real one.
      "/var/cache/": "",
      "s3.example.org": bucket.host,
      STORE_BUCKET: bucket.pathname.slice(1),
    }),
  );

/** Serves the `public/` tree of a store in a folder on a free loopback port, as deployed. */
export const startFolderCdn = (program: string, store: string) =>
  startNginx(program, (port) =>
    deployed("nginx-folder.conf", {
      "listen 80;": `listen 127.0.0.1:${port};`,
      "/var/lib/prs/store": store,
    }),
  );

/** Balances in turn over two proxies on these ports, from a free loopback port, as deployed. */
export const startBalancer = (program: string, [first, second]: readonly number[]) =>
  startNginx(program, (port) =>
    deployed("nginx-balancer.conf", {
      "listen 80;": `listen 127.0.0.1:${port};`,
      "10.0.0.11:8080": `127.0.0.1:${first}`,
      "10.0.0.12:8080": `127.0.0.1:${second}`,
    }),
  );

/** Starts nginx with a site that listens on the port given to it, and these modules. Throws when it does not start. */
export async function startNginx(
  program: string,
  site: (port: number) => string,
  modules: readonly string[] = [],
): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), "prs-nginx-"));
  await mkdir(join(folder, "temp"));
  const port = await freePort();
  await writeFile(join(folder, "nginx.conf"), configuration(folder, site(port), modules));
  // It says so once it listens.
  const { child, lines: logged } = await startServer(
    program,
    ["-p", folder, "-c", "nginx.conf", "-e", "stderr"],
    {
      says: /\[notice\].* nginx\/\d/,
      pipe: "stderr",
    },
  );
  return {
    port,
    logged,
    async stop() {
      await endProcess(child, "SIGTERM");
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function configuration(folder: string, site: string, modules: readonly string[]): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
    ${modules.map((module) => `load_module ${module};`).join("\n    ")}
    daemon off;
    master_process off;
    pid ${folder}/pid;
    error_log stderr notice;
    events {}
    http {
      access_log off;
      ${temporary.map((name) => `${name}_temp_path ${folder}/temp/${name};`).join("\n      ")}
      ${site}
    }
  `;
}
