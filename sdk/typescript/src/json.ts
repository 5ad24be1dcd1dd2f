// JSON in which integers of any size are exact: those beyond 2^53 are bigint.

import { make, said } from "./errors.js";

// Nothing else has this text in it, so it marks integers on their way through JSON.parse and JSON.stringify.
const mark = "bigint " + random(16) + " ";

/** Random text, for names that must not meet. */
export function random(bytes: number): string {
  const b = new Uint8Array(bytes);
  if (globalThis.crypto) {
    globalThis.crypto.getRandomValues(b);
  } else {
    b.forEach((_, i) => { b[i] = Math.floor(Math.random() * 256); }); // Node 18; nothing here has to be a secret
  }
  return Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
}

const stringOrNumber = /"(?:[^"\\]+|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const integer = /^-?[1-9]\d*$/;

/** Parses JSON. revive is called as by JSON.parse. SyntaxError if it is none. */
export function parse(text: string, revive: (value: unknown) => unknown = (v) => v): unknown {
  if (!/\d{16}/.test(text)) {
    return JSON.parse(text, (_, v) => revive(v));
  }
  const marked = text.replace(stringOrNumber, (m) => (integer.test(m) && !Number.isSafeInteger(Number(m)) ? `"${mark}${m}"` : m));
  return JSON.parse(marked, (_, v) => (typeof v === "string" && v.startsWith(mark) ? BigInt(v.slice(mark.length)) : revive(v)));
}

// What JSON.stringify writes as {} or as an object of numbers, so that its content would be lost.
const lost = [Map, Set, WeakMap, WeakSet, Promise, ArrayBuffer];

/**
 * Writes JSON. bigint becomes an integer. Values that JSON does not have are refused, not written as null or {}: NaN and the infinities, an invalid Date,
 * Map, Set, Promise, and bytes inside of other values.
 */
export function stringify(value: unknown, name: string): string {
  let bigs = false;
  let text: string | undefined;
  try {
    text = JSON.stringify(value, function (this: any, key, v) {
      if (typeof v === "bigint") {
        bigs = true;
        return mark + String(v);
      }
      if (typeof v === "number" && !Number.isFinite(v)) {
        throw new TypeError(`${v} is no number of JSON`);
      }
      if (this[key] instanceof Date && Number.isNaN(this[key].getTime())) { // v is null already
        throw new TypeError("an invalid Date");
      }
      if (v !== null && typeof v === "object" && (ArrayBuffer.isView(v) || lost.some((type) => v instanceof type))) {
        throw new TypeError(`JSON has no form for a ${v.constructor?.name ?? "value"}; convert it to an array or a plain object`);
      }
      return v;
    });
  } catch (e) {
    throw make("invalid", `does not encode as JSON: ${said(e)}`, { field: name });
  }
  if (text === undefined) {
    throw make("invalid", `a ${typeof value} does not encode as JSON`, { field: name });
  }
  return bigs ? text.replace(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1") : text;
}
