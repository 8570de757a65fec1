const start =
  /^redis(s?)(?:\+(sentinel|cluster))?:\/\/(?:((?:[^\s@/?#%]|%[\dA-Fa-f]{2})*)@)?([^\s@/?#]+)(.*)$/s;

/** The text after the hosts, and their default port, as clients of Redis in other languages have it. */
const modes = {
  redis: { rest: /^/, port: 6379 },
  sentinel: {
    rest: /^\/([^\s/?#]+)(?:\/(\d{1,4}))?(?:\?(?:sentinel_(?:username|password)=[^\s&#]+(?:&(?!$)|$))+)?$/,
    port: 26_379,
  },
  cluster: { rest: /^(?:\/0?)?$/, port: 6379 },
};
const forms =
  "a file path, redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], redis+sentinel://[USER:PASSWORD@]HOST[:PORT]," +
  "HOST[:PORT]…/PRIMARY[/DATABASE][?sentinel_password=PASSWORD] with the name that the sentinels have for the " +
  "primary, or redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]… without a database; rediss is for TLS";

/** Whether a QUOTA_STORE is an address rather than a file path. */
export const isUrl = (text: string): boolean => /^[a-z][a-z0-9+.-]*:\/\//i.test(text);

/**
 * Where counters are in Redis: on one server, on the primary that sentinels name, or spread over a cluster. The message
 * of its Error says what is expected, and never repeats the address, which may hold a password.
 */
export function parseRedisUrl(url: string) {
  const [known, secure, mode = "redis", access = "", hosts = "", after = ""] = start.exec(url) ?? [];
  const { rest, port } = modes[mode as keyof typeof modes];
  const [fits, name = "", db = "0"] = rest.exec(after) ?? [];
  const nodes = hosts.split(",").map((host) => URL.parse(`redis://${host}`));
  const several = mode === "redis" && nodes.length > 1;
  if (known === undefined || fits === undefined || several || !nodes.every((node) => node?.hostname))
    throw new Error(forms);
  const login = new URL(`redis://${access}@host${after}`);
  return {
    mode: mode as keyof typeof modes,
    url,
    tls: secure !== "",
    nodes: nodes.map((node) => ({
      host: node!.hostname.replace(/^\[(.*)\]$/, "$1"),
      port: Number(node!.port || port),
    })),
    username: decodeURIComponent(login.username),
    password: decodeURIComponent(login.password),
    name: decodeURIComponent(name),
    db: Number(db),
    sentinelUsername: login.searchParams.get("sentinel_username") ?? "",
    sentinelPassword: login.searchParams.get("sentinel_password") ?? "",
  };
}
