import { randomInt } from "node:crypto";
import { crc32 } from "node:zlib";
import { keyPattern } from "../../schemas/store/keys.ts";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const secretDigits = 32;
const checkDigits = 6;

/** `randomDigit` returns uniformly distributed integers from 0 to 61. */
export function generateKey(randomDigit = () => randomInt(alphabet.length)): string {
  const secret = Array.from({ length: secretDigits }, () => alphabet[randomDigit()]).join("");
  const head = `prs_live_${secret}`;
  return head + checksum(head);
}

/** The checksum catches typing errors and truncation. */
export function isWellFormedKey(text: string): boolean {
  return keyPattern.test(text) && checksum(text.slice(0, -checkDigits)) === text.slice(-checkDigits);
}

function checksum(head: string): string {
  let rest = crc32(head);
  let digits = "";
  for (let index = 0; index < checkDigits; index += 1) {
    digits = alphabet[rest % alphabet.length] + digits;
    rest = Math.floor(rest / alphabet.length);
  }
  return digits;
}
