/** @type {Record<import("../api.ts").Api["plan"], string>} */
export const planNames = { free: "Free", developer: "Developer", aegis: "Aegis" };
