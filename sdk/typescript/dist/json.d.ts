/** Random text, for names that must not meet. */
export declare function random(bytes: number): string;
/** Parses JSON. revive is called as by JSON.parse. SyntaxError if it is none. */
export declare function parse(text: string, revive?: (value: unknown) => unknown): unknown;
/**
 * Writes JSON. bigint becomes an integer. Values that JSON does not have are refused, not written as null or {}: NaN and the infinities, an invalid Date,
 * Map, Set, Promise, and bytes inside of other values.
 */
export declare function stringify(value: unknown, name: string): string;
