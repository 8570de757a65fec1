/** The first index in [from, to) where `holds` is true, or `to`. `holds` must stay true from there on. */
export function firstWhere(from: number, to: number, holds: (index: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
