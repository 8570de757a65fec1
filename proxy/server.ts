import { pino } from "pino";
import { ConfigError, readConfig } from "./config.ts";
import { startService } from "./service.ts";

// `npm run proxy`: the environment in, a proxy out; the only place of the gate that sees the process.
try {
  const config = readConfig(process.env);
  const log = pino({ level: config.logLevel });
  // npm runs scripts in the package's folder and tells the user's in INIT_CWD.
  const directory = process.env.INIT_CWD ?? process.cwd();
  const service = await startService(config, { directory, environment: process.env, log });
  log.info({ url: service.url }, "listening");
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, async () => {
      log.info({ signal }, "draining");
      await service.stop();
      process.exit(0);
    });
  }
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}
