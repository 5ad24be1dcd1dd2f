// HTTP_PROXY, HTTPS_PROXY and NO_PROXY under Node, as the Go client reads them. fetch does not know them there.

import { make } from "./errors.js";
import type { Answer, Send } from "./transport.js";

declare const process: { env?: Record<string, string | undefined>; versions?: { node?: string } } | undefined;

const load = (name: string): Promise<any> => import(name);
const patience = 10_000; // ms for the proxy to connect

interface Proxy {
  host: string;
  port: number;
  headers: Record<string, string>;
}

/** What sends requests to a server through its proxy; undefined if there is none, or not under Node. A server on this machine is reached directly. */
export async function throughProxy(url: URL): Promise<Send | undefined> {
  const env = typeof process !== "undefined" && process?.versions?.node ? process.env ?? {} : {};
  const proxy = await proxyFor(url, env);
  return proxy && (url.protocol === "https:" ? tunnelled(proxy) : forwarded(proxy));
}

async function proxyFor(url: URL, env: Record<string, string | undefined>): Promise<Proxy | undefined> {
  const name = url.protocol === "https:" ? "https_proxy" : "http_proxy";
  // In a CGI program HTTP_PROXY is a header of the request.
  const text = env[name] || (name === "http_proxy" && env.REQUEST_METHOD !== undefined ? "" : env[name.toUpperCase()]);
  const port = Number(url.port) || (url.protocol === "https:" ? 443 : 80);
  if (!text || loopback(url.hostname) || (await excluded(url.hostname, port, env.no_proxy || env.NO_PROXY || ""))) {
    return undefined;
  }
  let p: URL | undefined;
  try {
    p = new URL(text.includes("://") ? text : "http://" + text);
  } catch {
    // said below
  }
  if (p?.protocol !== "http:") {
    throw make("invalid", "is not the address of an HTTP proxy; use http://HOST:PORT", { field: name.toUpperCase() });
  }
  const login = p.username ? { "Proxy-Authorization": "Basic " + btoa(`${decodeURIComponent(p.username)}:${decodeURIComponent(p.password)}`) } : {};
  return { host: bare(p.hostname), port: Number(p.port) || 80, headers: login as Record<string, string> };
}

const bare = (host: string) => host.replace(/^\[|\]$/g, "");

/** Whether traffic to a host stays on this machine. */
export function loopback(host: string): boolean {
  return /^(localhost|127\.[\d.]+|\[::1\])$/.test(host);
}

/** Whether NO_PROXY names a host: `*`, a domain with its subdomains, an address, a network, each with a port or without. */
async function excluded(host: string, port: number, rules: string): Promise<boolean> {
  host = bare(host.toLowerCase()).replace(/\.$/, "");
  const net = await load("node:net");
  const family = (ip: string) => (net.isIP(ip) === 6 ? "ipv6" : "ipv4");
  for (let rule of rules.toLowerCase().split(/[\s,]+/).filter(Boolean)) {
    if (rule === "*") {
      return true;
    }
    const at = /^(\[.*\]|[^:]*):(\d+)$/.exec(rule);
    if (at) {
      if (Number(at[2]) !== port) {
        continue;
      }
      rule = at[1]!;
    }
    rule = bare(rule);
    const [address, bits] = rule.split("/");
    if (net.isIP(address)) {
      const list = new net.BlockList();
      try {
        bits === undefined ? list.addAddress(address, family(address!)) : list.addSubnet(address, Number(bits), family(address!));
      } catch {
        continue; // no network
      }
      if (net.isIP(host) && list.check(host, family(host))) {
        return true;
      }
      continue;
    }
    const domain = rule.replace(/^\*/, "");
    if (domain && ((!domain.startsWith(".") && host === domain) || host.endsWith("." + domain.replace(/^\./, "")))) {
      return true;
    }
  }
  return false;
}

/** Sends http:// requests to the proxy as they are. */
async function forwarded(proxy: Proxy): Promise<Send> {
  const http = await load("node:http");
  const agent = new http.Agent({ keepAlive: true });
  return (method, url, headers, text, signal) => requested(http, { host: proxy.host, port: proxy.port, method, path: url, agent, signal,
    headers: { ...headers, ...proxy.headers, Host: new URL(url).host } }, text);
}

/** Sends https:// requests over connections that the proxy makes. */
async function tunnelled(proxy: Proxy): Promise<Send> {
  const [http, https, tls] = await Promise.all(["node:http", "node:https", "node:tls"].map(load));
  const agent = new https.Agent({ keepAlive: true });
  agent.createConnection = (options: any, done: (e: unknown, socket?: unknown) => void) => {
    const target = `${options.host.includes(":") ? `[${options.host}]` : options.host}:${options.port}`;
    const r = http.request({ host: proxy.host, port: proxy.port, method: "CONNECT", path: target, headers: { ...proxy.headers, Host: target } });
    r.setTimeout(patience, () => r.destroy(new Error("the proxy does not answer")));
    r.on("error", done);
    r.on("connect", (answer: any, socket: any) => {
      if (answer.statusCode !== 200) {
        socket.destroy();
        return done(new Error(`the proxy refuses the connection: status ${answer.statusCode}`));
      }
      socket.setTimeout(0);
      done(null, tls.connect({ ...options, socket, path: undefined }));
    });
    r.end();
  };
  return (method, url, headers, text, signal) => {
    const u = new URL(url);
    return requested(https, { host: bare(u.hostname), servername: bare(u.hostname), port: Number(u.port) || 443, method, path: u.pathname + u.search,
      headers, agent, signal }, text);
  };
}

function requested(module: any, options: object, text: string | undefined): Promise<Answer> {
  return new Promise((done, failed) => {
    const r = module.request(options);
    r.on("error", failed);
    r.on("response", (a: any) => done({ status: a.statusCode, header: (name) => String(a.headers[name.toLowerCase()] ?? ""), chunks: a }));
    r.end(text);
  });
}
