import { fromEnvironment } from "./programs.ts";

/** A home folder with DuckDB's extensions, or undefined where they are not installed. */
export const findDuckDbHome = () =>
  fromEnvironment("TEST_DUCKDB_HOME", "DuckDB's extensions", "duckdb-install.sh");
