import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";

/** nginx's program, or undefined where it is not installed; under CI that is an error. */
export function findNginx(): string | undefined {
  // Debian puts it where only root's PATH leads.
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"];
  const program = folders.map((folder) => join(folder, "nginx")).find(existsSync);
  if (program) return program;
  if (process.env.CI) throw new Error("CI runs the tests with nginx too: it must be installed");
  console.warn("Tests with nginx are skipped: it is not installed");
  return undefined;
}

/** A running stand-in of the CDN. */
export interface Cdn {
  port: number;
  stop(): Promise<void>;
}

const CorsConfig = z.object({
  AccessControlAllowOrigins: z.object({ Items: z.array(z.string()) }),
  AccessControlExposeHeaders: z.object({ Items: z.array(z.string()) }),
});

/**
 * Serves the `public/` tree of a bucket on a free loopback port, with the CDN's response headers. `bucket` is its address, by path.
 * Throws when nginx does not start.
 */
export async function startCdn(program: string, bucket: URL): Promise<Cdn> {
  const folder = await mkdtemp(join(tmpdir(), "prs-nginx-"));
  await mkdir(join(folder, "temp"));
  const port = await freePort();
  await writeFile(join(folder, "nginx.conf"), configuration(folder, port, bucket));
  const child = spawn(program, ["-p", folder, "-c", "nginx.conf", "-e", "stderr"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  await listening(child);
  return {
    port,
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function configuration(folder: string, port: number, bucket: URL): string {
  const file = new URL("../../.github/deploy/cdn-response-headers.json", import.meta.url);
  const cors = CorsConfig.parse(JSON.parse(readFileSync(file, "utf8")).CorsConfig);
  const headers = {
    "Access-Control-Allow-Origin": cors.AccessControlAllowOrigins.Items.join(", "),
    "Access-Control-Expose-Headers": cors.AccessControlExposeHeaders.Items.join(", "),
  };
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
    daemon off;
    master_process off;
    pid ${folder}/pid;
    error_log stderr notice;
    events {}
    http {
      access_log off;
      ${temporary.map((name) => `${name}_temp_path ${folder}/temp/${name};`).join("\n      ")}
      server {
        listen 127.0.0.1:${port};
        location /public/ {
          limit_except GET { deny all; }
          # A query would be a command to S3: ?list-type, ?acl, ?versions.
          set $args "";
          proxy_pass ${bucket.origin};
          rewrite ^/(.*)$ ${bucket.pathname}/$1 break;
          proxy_pass_request_headers off;
          proxy_set_header Host ${bucket.host};
          proxy_set_header If-None-Match $http_if_none_match;
          ${Object.entries(headers)
            .map(([name, value]) => `add_header ${name} "${value}";`)
            .join("\n          ")}
        }
        location / { return 404; }
        # Without it nginx would redirect to /public/.
        location = /public { return 404; }
      }
    }
  `;
}

/** Waits until nginx says that it runs, which it does after it listens. */
async function listening(child: ChildProcess): Promise<void> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stderr! })) {
    lines.push(line);
    if (/\[notice\].* nginx\/\d/.test(line)) {
      // A pipe that nobody empties would stop nginx one day.
      child.stderr!.resume();
      return;
    }
  }
  throw new Error(`nginx ended before it listened: ${lines.join("\n")}`);
}

/** A port that was free a moment ago: nginx cannot choose one itself. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
