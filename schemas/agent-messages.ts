import { z } from "zod";

const Party = z.object({ name: z.string(), version: z.string() });

/**
 * A message of the Model Context Protocol, cut down to what is made use of. The SDK checks each member of all that it is
 * given, at every depth, on the main thread, and its refusals quote its own schemas.
 */
export const AgentMessage = z.object({
  jsonrpc: z.literal("2.0"),
  /** A notification has none. */
  id: z.union([z.string(), z.int()]).optional(),
  method: z.string(),
  params: z
    .object({
      protocolVersion: z.string(),
      capabilities: z.object({}),
      clientInfo: Party,
      name: z.string(),
      arguments: z.record(z.string(), z.unknown()),
      _meta: z
        .object({
          "io.modelcontextprotocol/protocolVersion": z.string(),
          "io.modelcontextprotocol/clientInfo": Party,
          "io.modelcontextprotocol/clientCapabilities": z.object({}),
        })
        .partial(),
    })
    .partial()
    .default({}),
});
export type AgentMessage = z.infer<typeof AgentMessage>;

/** What the params of a method must have. */
export const requiredParams: ReadonlyMap<string, readonly (keyof AgentMessage["params"])[]> = new Map([
  ["initialize", ["protocolVersion", "capabilities", "clientInfo"]],
  ["tools/call", ["name"]],
]);
