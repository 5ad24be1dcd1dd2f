/** Random text, for names that must not meet. */
export declare function random(bytes: number): string;
/** Parses JSON. revive is called as by JSON.parse. SyntaxError if it is none. */
export declare function parse(text: string, revive?: (value: unknown) => unknown): unknown;
/** Writes JSON. bigint becomes an integer. Numbers that JSON does not have are refused, not written as null. */
export declare function stringify(value: unknown, name: string): string;
