import { once } from "node:events";
import type { Server } from "node:net";
import { hasCode, messageOf } from "../../snapshots/store/errors.ts";
import { configError } from "../config.ts";

/**
 * Listens on an address, whose port `variable` sets. Throws CONFIG that names the variable if the address is taken or
 * not available.
 */
export async function listen(
  server: Server,
  { host, port }: { host: string; port: number },
  variable = "PORT",
): Promise<void> {
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (error) {
    const setting = `${variable} ${port}`;
    if (hasCode(error, "EADDRINUSE"))
      throw configError(`${setting} is taken by another process; set ${variable} to a free one.`);
    if (hasCode(error, "EACCES"))
      throw configError(`${setting} may not be used by this user; set ${variable} to one above 1023.`);
    throw configError(`HOST ${host} cannot be listened on: ${messageOf(error)}`);
  }
}
