// Computes the CRC-32 of a concatenation from the CRCs of its parts. The polynomial is that of RFC 1952, bit-reversed
// as in zlib.
const polynomial = 0xedb88320;

/** a * b modulo the CRC polynomial, as an integer of 32 bits with a sign. Bit 31 is the coefficient of x^0. */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = 0x80000000; bit !== 0; bit >>>= 1) {
    if (a & bit) product ^= shifted;
    shifted = shifted & 1 ? (shifted >>> 1) ^ polynomial : shifted >>> 1;
  }
  return product;
}

/** x^(2^n) for n = 0..31. */
const powersOfTwo = (() => {
  const powers = [0x40000000];
  while (powers.length < 32) powers.push(multiply(powers.at(-1)!, powers.at(-1)!));
  return powers;
})();

/** x^(8 * byte * 256^place) for every byte at every place of a length. They are needed thousands of times a second. */
const shiftTables = Array.from({ length: 5 }, (_, index) =>
  Uint32Array.from({ length: 256 }, (_, byte) => shiftBySquaring(byte * 256 ** index)),
);

function shiftBySquaring(length: number): number {
  let power = 0x80000000;
  for (let rest = length, n = 3; rest > 0; rest = Math.floor(rest / 2), n = (n + 1) % 32) {
    if (rest % 2 === 1) power = multiply(powersOfTwo[n]!, power);
  }
  return power;
}

/** x^(8 * length) modulo the polynomial, the factor by which appending `length` bytes (below 2^40) multiplies a CRC. */
function shiftOf(length: number): number {
  let power = shiftTables[0]![length % 256]!;
  for (let rest = Math.floor(length / 256), index = 1; rest > 0; rest = Math.floor(rest / 256), index += 1) {
    power = multiply(shiftTables[index]![rest % 256]!, power);
  }
  return power;
}

/** The CRC-32 of A followed by B, given the CRC-32 of each and B's length in bytes. */
export function combineCrc(crcA: number, crcB: number, lengthB: number): number {
  return (multiply(shiftOf(lengthB), crcA) ^ crcB) >>> 0;
}
