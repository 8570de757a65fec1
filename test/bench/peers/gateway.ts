import { createHmac, randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../../helpers/servers/programs.ts";
import type { Bench } from "../run.ts";
import { ask, startTarget, type Target } from "../servers.ts";

const secondsValid = 86_400;
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** KrakenD's engine before `to`, for those who have the token. Bodies pass as they are. */
export async function startGateway({ data, ends }: Bench, program: string, to: Target): Promise<Target> {
  const port = await freePort();
  const secret = randomBytes(32);
  const [config, keys] = [join(data.scratch, "gateway.json"), join(data.scratch, "gateway-keys.json")];
  const kid = "bench";
  const key = { kty: "oct", alg: "HS256", kid, k: secret.toString("base64url") };
  await writeFile(keys, JSON.stringify({ keys: [key] }));
  await writeFile(config, JSON.stringify(configOf(port, to, keys)));
  const expires = Math.floor(Date.now() / 1000) + secondsValid;
  const signed = `${encoded({ alg: key.alg, typ: "JWT", kid })}.${encoded({ sub: "bench", exp: expires })}`;
  const token = `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
  const target = { port, headers: { authorization: `Bearer ${token}` } };
  await startTarget(ends, target, "/score", { program, args: [config] });
  const forged = { port, headers: { authorization: `${target.headers.authorization.slice(0, -2)}AA` } };
  const taken = await ask(forged, "/score").catch(() => undefined);
  if (taken) throw new Error("the gateway takes any token");
  return target;
}

const configOf = (port: number, to: Target, keys: string) => ({
  version: 3,
  listen_ip: "127.0.0.1",
  port,
  timeout: "10s",
  disable_compression: true,
  max_idle_connections_per_host: 250,
  endpoints: [
    {
      endpoint: "/score",
      output_encoding: "no-op",
      backend: [{ host: [`http://127.0.0.1:${to.port}`], url_pattern: "/score", encoding: "no-op" }],
      extra_config: {
        "github.com/devopsfaith/krakend-jose/validator": {
          alg: "HS256",
          jwk_local_path: keys,
          disable_jwk_security: true,
        },
      },
    },
  ],
});
