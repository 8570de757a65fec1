/** What a snapshot id is made of. How anything is compressed does not matter. */
export interface LogicalContent {
  feedVersion: string;
  counts: { markets: number; protocols: number };
  /** Roots in hexadecimal. */
  archiveRoot: string;
  scoresRoot: string;
}

/** The text of which a snapshot's id is the SHA-256, one line per part (snapshots/SPEC.md, "Roots"). */
export function identityOf({ feedVersion, counts, archiveRoot, scoresRoot }: LogicalContent): string {
  return (
    `prs-snapshot 1 ${feedVersion}\nmarkets ${counts.markets}\nprotocols ${counts.protocols}\n` +
    `archive ${archiveRoot}\nscores ${scoresRoot}\n`
  );
}
