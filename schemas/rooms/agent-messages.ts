import { z } from "zod";
import { endpoints } from "../endpoints.ts";
import type { Problem } from "../problem.ts";

const Party = z.object({ name: z.string(), version: z.string() });

/**
 * The members of a Model Context Protocol message that the service uses. The SDK checks every member at every depth, on
 * the main thread, and its refusals quote its own schemas.
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

/** The params that a method must have. */
export const requiredParams: ReadonlyMap<string, readonly (keyof AgentMessage["params"])[]> = new Map([
  ["initialize", ["protocolVersion", "capabilities", "clientInfo"]],
  ["tools/call", ["name"]],
]);

export const agentProtocol = {
  root: endpoints.agents.path,
  below: false,
  problemOf: (problem: Problem) => ({
    jsonrpc: "2.0",
    id: null,
    error: { code: -32000, message: problem.detail, data: problem },
  }),
};
