import type { z } from "zod";
import { MarketPage, ScoreList, Status, Usage } from "./envelopes.ts";
import type { Plan } from "./plans.ts";
import { archiveParameters } from "./query.ts";
import { ProtocolScore } from "./records.ts";

/** One address of the service. */
export interface Endpoint {
  method: "GET" | "POST" | "WS";
  /** `:slug` stands for one segment. */
  path: string;
  /** The lowest plan that may call it. */
  plan: Plan;
  /** `announced` endpoints answer 501 COMING_SOON to callers with acceptable credentials. */
  availability: "available" | "announced";
  /** Whether a request takes a unit of the caller's daily quota. */
  metered: boolean;
  /** `none`: credentials are not even looked at. */
  credentials: "checked" | "none";
  /** Answers are put together from many stored objects; only so many of them at a time. */
  heavy?: true;
  query: readonly string[];
  response?: z.ZodType;
  summary: string;
}

const open = {
  plan: "free",
  availability: "available",
  metered: false,
  credentials: "none",
  query: [],
} as const;
const metered = {
  availability: "available",
  metered: true,
  credentials: "checked",
  query: [],
} as const;
const announced = { ...metered, availability: "announced" } as const;

/** SPEC 4, row for row, and the service's own addresses. Routing, gating, metering and the README's table read this. */
export const endpoints = {
  listScores: {
    ...metered,
    method: "GET",
    path: "/api/v1/scores",
    plan: "free",
    response: ScoreList,
    summary: "All scored protocols with their current BRI and Forge Scale",
  },
  getScore: {
    ...metered,
    method: "GET",
    path: "/api/v1/scores/:slug",
    plan: "free",
    response: ProtocolScore,
    summary: "Full score breakdown of one protocol",
  },
  batchScores: {
    ...announced,
    method: "POST",
    path: "/api/v1/scores/batch",
    plan: "free",
    summary: "Up to 50 protocols at once",
  },
  scoreHistory: {
    ...announced,
    method: "GET",
    path: "/api/v1/scores/:slug/history",
    plan: "developer",
    summary: "Seven days of score history",
  },
  scoreDimensions: {
    ...announced,
    method: "GET",
    path: "/api/v1/scores/:slug/dimensions",
    plan: "developer",
    summary: "Dimension breakdown with change and percentile",
  },
  marketsHistorical: {
    ...metered,
    method: "GET",
    path: "/api/v1/markets/historical",
    plan: "aegis",
    heavy: true,
    query: archiveParameters.map((parameter) => parameter.name),
    response: MarketPage,
    summary: "Archive of resolved prediction markets, newest first, with filters and exact totals",
  },
  scoreFeed: {
    ...announced,
    method: "WS",
    path: "/api/v1/ws/scores",
    plan: "developer",
    summary: "Live feed of score changes",
  },
  status: {
    ...open,
    method: "GET",
    path: "/api/v1/status",
    response: Status,
    summary: "Which snapshot is served and how fresh it is",
  },
  usage: {
    ...open,
    credentials: "checked",
    method: "GET",
    path: "/api/v1/usage",
    response: Usage,
    summary: "The caller's plan and what is left of the day's quota",
  },
  healthz: {
    ...open,
    method: "GET",
    path: "/healthz",
    summary: "The process is alive",
  },
  readyz: {
    ...open,
    method: "GET",
    path: "/readyz",
    summary: "The process can serve: snapshot and keys are loaded, and requests can be counted",
  },
} as const satisfies Record<string, Endpoint>;

export type EndpointId = keyof typeof endpoints;

/** Endpoints that need a handler. */
export type AvailableId = {
  [Id in EndpointId]: (typeof endpoints)[Id]["availability"] extends "available" ? Id : never;
}[EndpointId];
