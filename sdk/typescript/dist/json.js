// JSON in which integers of any size are exact: those beyond 2^53 are bigint.
import { make } from "./errors.js";
// Nothing else has this text in it, so it marks integers on their way through JSON.parse and JSON.stringify.
const mark = "bigint " + random(16) + " ";
/** Random text, for names that must not meet. */
export function random(bytes) {
    const b = new Uint8Array(bytes);
    if (globalThis.crypto) {
        globalThis.crypto.getRandomValues(b);
    }
    else {
        b.forEach((_, i) => { b[i] = Math.floor(Math.random() * 256); }); // Node 18; nothing here has to be a secret
    }
    return Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
}
const stringOrNumber = /"(?:[^"\\]+|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const integer = /^-?[1-9]\d*$/;
/** Parses JSON. revive is called as by JSON.parse. SyntaxError if it is none. */
export function parse(text, revive = (v) => v) {
    if (!/\d{16}/.test(text)) {
        return JSON.parse(text, (_, v) => revive(v));
    }
    const marked = text.replace(stringOrNumber, (m) => (integer.test(m) && !Number.isSafeInteger(Number(m)) ? `"${mark}${m}"` : m));
    return JSON.parse(marked, (_, v) => (typeof v === "string" && v.startsWith(mark) ? BigInt(v.slice(mark.length)) : revive(v)));
}
/** Writes JSON. bigint becomes an integer. Numbers that JSON does not have are refused, not written as null. */
export function stringify(value, name) {
    let bigs = false;
    let text;
    try {
        text = JSON.stringify(value, (_, v) => {
            if (typeof v === "bigint") {
                bigs = true;
                return mark + String(v);
            }
            if (typeof v === "number" && !Number.isFinite(v)) {
                throw new TypeError(`${v} is no number of JSON`);
            }
            return v;
        });
    }
    catch (e) {
        throw make("invalid", `does not encode as JSON: ${e.message}`, { field: name });
    }
    if (text === undefined) {
        throw make("invalid", `a ${typeof value} does not encode as JSON`, { field: name });
    }
    return bigs ? text.replace(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1") : text;
}
