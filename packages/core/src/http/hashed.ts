import { createHash } from 'node:crypto';

/** 132 bits in base64url. */
const CHARACTERS = 22;
/** Texts kept in each of two generations, and the longest of them in UTF-16 units: together at most 1 MB. */
const REMEMBERED = 500;
const LONGEST = 512;

/** Hashes a secret: the namespace, and 132 bits of its SHA-256 in base64url. */
export function hashed(namespace: string, secret: string): string {
  // UTF-16, since UTF-8 would write every lone surrogate alike.
  const digest = createHash('sha256').update(secret, 'utf16le').digest('base64url');
  return namespace + digest.slice(0, CHARACTERS);
}

/**
 * Keeps the answers for the last texts, 1,000 at most and in memory only, so that a busy caller does not cost a hash
 * per request. A full generation becomes the old one, and what nobody asks for again goes with it.
 */
export function remembering<T>(answer: (text: string) => T): (text: string) => T {
  let young = new Map<string, T>();
  let old = new Map<string, T>();
  return (text) => {
    const known = young.get(text);
    if (known !== undefined) return known;
    const found = old.get(text) ?? answer(text);
    if (text.length > LONGEST) return found;
    if (young.size >= REMEMBERED) {
      old = young;
      young = new Map();
    }
    young.set(text, found);
    return found;
  };
}
