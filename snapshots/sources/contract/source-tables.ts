import { market, marketDimensionKeys } from "../../../schemas/market.ts";
import { protocol } from "../../../schemas/protocol.ts";
import { forgeTiers, numbersOfTiers } from "../../../schemas/scales.ts";
import { type Members, type Shape as RecordShape, sourceName } from "../../../schemas/shapes.ts";
import { textList } from "../duckdb/sql-literals.ts";
import { milliseconds } from "./file-column.ts";
import {
  atMostBytes,
  double,
  doubleBetween,
  type Field,
  integer,
  matching,
  notEmpty,
  notReserved,
  oneOf,
  type Shape,
  type SourceTable,
  text,
  timeUntil,
} from "./table-schema.ts";

export function fieldsOf(members: Members, latest: Date | undefined): Field[] {
  return Object.entries(members).map(([published, shape]) => {
    const name = sourceName(published);
    return { name, ...(name !== published && { published }), shape: ruled(shape, latest) };
  });
}

/** Turns the rules of a shape into SQL. `latest` is the latest time that a row may have, once it is known. */
export function ruled(shape: RecordShape, latest: Date | undefined): Shape {
  switch (shape.kind) {
    case "text": {
      const { values, pattern, rule, reserved, maxBytes } = shape;
      return text(
        ...(values ? [oneOf(values)] : []),
        ...(pattern ? [matching(pattern, rule!)] : []),
        ...(reserved ? [notReserved(reserved)] : []),
        ...(shape.notEmpty ? [notEmpty] : []),
        ...(maxBytes === undefined ? [] : [atMostBytes(maxBytes)]),
      );
    }
    case "integer":
      return integer(shape);
    case "double": {
      const { min, max } = shape;
      return min === undefined || max === undefined ? double : doubleBetween({ min, max });
    }
    case "time":
      return timeUntil(latest);
    case "list":
      return { kind: "list", of: ruled(shape.of, latest) };
    case "struct":
      return { kind: "struct", fields: fieldsOf(shape.members, latest) };
    default:
      return { kind: shape.kind };
  }
}

const dimensionKeys = "list_sort(list_transform(dimensions, lambda dimension: dimension.key))";

/** The archive's markets (INTERFACE 2.4 to 2.6). `latest` is the latest time that a row may have. */
export function marketsTable(latest: Date | undefined): SourceTable {
  return {
    name: "markets",
    label: "id",
    fields: fieldsOf(market, latest),
    rowRules: [
      {
        column: "dimensions",
        rule: `must have each of the keys ${marketDimensionKeys.join(", ")} once`,
        holds: `coalesce(${dimensionKeys} = ${textList(marketDimensionKeys.toSorted())}, false)`,
        value: "to_json(list_transform(dimensions, lambda dimension: dimension.key))",
      },
    ],
    unique: {
      // The cast accepts spellings that are refused later. It turns 36 bytes into 16, so that more keys fit into
      // memory.
      key: "TRY_CAST(id AS UUID)",
      column: "id",
      rule: "must not be the id of two markets",
    },
  };
}

/** Protocol scores with their history (INTERFACE 2.1). `latest` is the latest time that a row may have. */
export function protocolScoresTable(latest: Date | undefined): SourceTable {
  return {
    name: "protocol_scores",
    label: "slug",
    fields: fieldsOf(protocol, latest),
    rowRules: [
      {
        column: "forge_scale_num",
        rule: `must be the number of forge_scale, ${numbersOfTiers}`,
        holds: `coalesce(forge_scale_num = list_position(${textList(forgeTiers)}, forge_scale), true)`,
        value: "concat(forge_scale_num, ' with ', forge_scale)",
      },
    ],
    unique: {
      key: `concat(slug, ' at ', make_timestamp_ms(${milliseconds("updated_at")}))`,
      column: "updated_at",
      rule: "must not be the time of two scores of one protocol, in milliseconds",
    },
  };
}
