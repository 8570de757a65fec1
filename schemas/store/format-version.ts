/** Version of the snapshot format, which snapshots/SPEC.md documents. */
export const formatVersion = 4;
