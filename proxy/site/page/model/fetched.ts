import type { Store } from "./state.ts";

/** A response that counts its bytes in the store as they come. */
export function metered(response: Response, store: Store) {
  const count = (bytes: number, requests: number) => {
    const { fetched } = store.state;
    store.set({ fetched: { bytes: fetched.bytes + bytes, requests: fetched.requests + requests } });
  };
  count(0, 1);
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform: (bytes, controller) => {
      count(bytes.length, 0);
      controller.enqueue(bytes);
    },
  });
  return new Response(response.body?.pipeThrough(counter) ?? null, response);
}
