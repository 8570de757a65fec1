import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";
import { findProgram, freePort } from "./programs.ts";

/** nginx's program, or undefined where it is not installed; under CI that is an error. */
export const findNginx = () => findProgram("nginx");

/** A running nginx. */
export interface Nginx {
  port: number;
  /** Lines of its error log so far. */
  logged: string[];
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
export const startCdn = (program: string, bucket: URL) => startNginx(program, (port) => cdn(port, bucket));

/** Balances in turn over proxies on these ports, from a free loopback port, and tells them the client's address. */
export const startBalancer = (program: string, ports: readonly number[]) =>
  startNginx(program, (port) => balancer(port, ports));

/** Starts nginx with a site that listens on the port given to it. Throws when it does not start. */
export async function startNginx(program: string, site: (port: number) => string): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), "prs-nginx-"));
  await mkdir(join(folder, "temp"));
  const port = await freePort();
  await writeFile(join(folder, "nginx.conf"), configuration(folder, site(port)));
  const child = spawn(program, ["-p", folder, "-c", "nginx.conf", "-e", "stderr"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const logged = await listening(child);
  return {
    port,
    logged,
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function configuration(folder: string, site: string): string {
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
      ${site}
    }
  `;
}

function cdn(port: number, bucket: URL): string {
  const file = new URL("../../.github/deploy/cdn-response-headers.json", import.meta.url);
  const cors = CorsConfig.parse(JSON.parse(readFileSync(file, "utf8")).CorsConfig);
  const headers = {
    "Access-Control-Allow-Origin": cors.AccessControlAllowOrigins.Items.join(", "),
    "Access-Control-Expose-Headers": cors.AccessControlExposeHeaders.Items.join(", "),
  };
  return `
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
  `;
}

function balancer(port: number, ports: readonly number[]): string {
  return `
      upstream proxies {
        ${ports.map((each) => `server 127.0.0.1:${each};`).join(" ")}
        keepalive 8;
      }
      server {
        listen 127.0.0.1:${port};
        location / {
          proxy_pass http://proxies;
          proxy_http_version 1.1;
          proxy_set_header Connection "";
          proxy_set_header Host $http_host;
          proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }
      }
  `;
}

/** Waits until nginx says that it runs, which it does after it listens; returns the lines it logs. */
async function listening(child: ChildProcess): Promise<string[]> {
  const logged: string[] = [];
  const lines = createInterface({ input: child.stderr! });
  const started = new Promise<void>((resolve) => {
    lines.on("line", (line) => {
      logged.push(line);
      if (/\[notice\].* nginx\/\d/.test(line)) resolve();
    });
  });
  const ended = once(child, "close").then(() => {
    throw new Error(`nginx ended before it listened: ${logged.join("\n")}`);
  });
  await Promise.race([started, ended]);
  return logged;
}
