import type { Send } from "./transport.js";
/** What sends requests to a server through its proxy; undefined if there is none, or not under Node. A server on this machine is reached directly. */
export declare function throughProxy(url: URL): Promise<Send | undefined>;
/** Whether traffic to a host stays on this machine. */
export declare function loopback(host: string): boolean;
