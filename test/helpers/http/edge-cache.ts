import { startNginx } from "../servers/nginx.ts";

/**
 * Starts a shared cache in front of a server on a loopback port, misconfigured by somebody who thinks only of
 * addresses. Its key is host and target, and it keeps answers for ten minutes when the server says nothing about
 * caching. It ignores the server's headers that `ignore` names.
 */
export function startSharedCache(
  program: string,
  server: number,
  { gzip = false, ignore = [] as string[] } = {},
) {
  return startNginx(
    program,
    (port) => `
      proxy_cache_path cache keys_zone=shared:1m;
      server {
        listen 127.0.0.1:${port};
        gzip ${gzip ? "on" : "off"};
        gzip_types application/json application/problem+json;
        gzip_min_length 1;
        location / {
          proxy_pass http://127.0.0.1:${server};
          proxy_http_version 1.1;
          proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
          proxy_cache shared;
          proxy_cache_key $host$request_uri;
          proxy_cache_valid any 10m;
          proxy_cache_use_stale error timeout http_500 http_502 http_503 http_504;
          ${ignore.length > 0 ? `proxy_ignore_headers ${ignore.join(" ")};` : ""}
          add_header X-Cache $upstream_cache_status always;
        }
      }`,
  );
}
