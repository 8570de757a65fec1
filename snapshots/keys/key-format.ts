import { randomInt } from "node:crypto";
import { crc32 } from "node:zlib";
import { keyPattern } from "../../schemas/keys.ts";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const secretDigits = 32;
const checkDigits = 6;

/** A new API key. `randomDigit` gives integers below 62, every one as likely. */
export function generateKey(randomDigit = () => randomInt(alphabet.length)): string {
  const secret = Array.from({ length: secretDigits }, () => alphabet[randomDigit()]).join("");
  const head = `prs_live_${secret}`;
  return head + checksum(head);
}

/** Whether a text can be a key at all: its form, and the checksum that catches a mistyped or cut one. */
export function isWellFormedKey(text: string): boolean {
  return keyPattern.test(text) && checksum(text.slice(0, -checkDigits)) === text.slice(-checkDigits);
}

function checksum(head: string): string {
  let rest = crc32(head);
  let digits = "";
  for (let place = 0; place < checkDigits; place += 1) {
    digits = alphabet[rest % alphabet.length] + digits;
    rest = Math.floor(rest / alphabet.length);
  }
  return digits;
}
