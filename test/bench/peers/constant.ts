import { readFileSync } from "node:fs";
import express from "express";

// Nothing but the framework: one body that is ready, on every path.
const body = readFileSync(process.env.BODY!);
const app = express();
// A tag would cost the hash of every body.
app.disable("etag").disable("x-powered-by");
app.get("/:any", (_request, response) => {
  response.set({ "Content-Type": "application/json; charset=utf-8", "Content-Encoding": "gzip" }).send(body);
});
app.listen(Number(process.env.PORT), "127.0.0.1");
