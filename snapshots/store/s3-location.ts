/** A bucket and the prefix of the store's keys in it, which is "" or ends with "/". */
export interface S3Location {
  bucket: string;
  prefix: string;
}

/** Parses `s3://bucket` or `s3://bucket/prefix`; undefined for anything else. */
export function parseS3Location(location: string): S3Location | undefined {
  const [, bucket, path = ""] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(location) ?? [];
  const prefix = path.replace(/\/+$/, "");
  return bucket === undefined ? undefined : { bucket, prefix: prefix === "" ? "" : `${prefix}/` };
}
