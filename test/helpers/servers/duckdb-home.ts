import { existsSync } from "node:fs";

/** A home folder with DuckDB's extensions, or undefined where they are not installed; under CI that is an error. */
export function findDuckDbHome(): string | undefined {
  const { TEST_DUCKDB_HOME: home, CI } = process.env;
  if (home && existsSync(home)) return home;
  if (CI)
    throw new Error("CI runs the tests with DuckDB's extensions: TEST_DUCKDB_HOME must name their folder");
  console.warn("Tests of DuckDB's extensions are skipped: test/servers/duckdb-install.sh installs them");
  return undefined;
}
