import { expect, test } from "vitest";
import { clientTypes } from "../../helpers/http/client-types.ts";

// After a change of client.js or of a schema, `vitest -u` with this file writes the declarations anew.
test("the client's declarations are those of its source and of the service's schemas", async () => {
  await expect(await clientTypes()).toMatchFileSnapshot("../../../proxy/site/client/client.d.ts");
});
