/** @param path relative to the page, so that the site works in any folder, or an absolute address */
export const absolute = (path: string) => new URL(path, document.baseURI).href;

export const isElsewhere = (path: string) => new URL(path, document.baseURI).origin !== location.origin;

export function request(address: string, how: RequestInit = {}) {
  return fetch(address, {
    ...how,
    mode: isElsewhere(address) ? "cors" : "same-origin",
    credentials: "omit",
    redirect: "error",
    referrerPolicy: "no-referrer",
  });
}
