"""Which HTTP proxy leads to a server: HTTP_PROXY, HTTPS_PROXY and NO_PROXY, as the Go client reads them."""

from __future__ import annotations

import os
from base64 import b64encode
from ipaddress import ip_address, ip_network
from typing import Mapping, Optional
from urllib.parse import SplitResult, unquote, urlsplit

from .errors import make


class Proxy:
    """An HTTP proxy. ``authorization`` is the value of Proxy-Authorization, or empty."""

    def __init__(self, host: str, port: int, authorization: str) -> None:
        self.host, self.port, self.authorization = host, port, authorization


def loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_for(url: SplitResult, env: Optional[Mapping[str, str]] = None) -> Optional[Proxy]:
    """The proxy for a server, or None. A server on this machine is always reached directly."""
    env = os.environ if env is None else env
    name = "https_proxy" if url.scheme == "https" else "http_proxy"
    text = env.get(name) or env.get(name.upper()) or ""
    if name == "http_proxy" and "REQUEST_METHOD" in env:  # a CGI program: HTTP_PROXY is a header of the request
        text = env.get(name) or ""
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    if not text or loopback(host) or excluded(host, port, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    try:
        p = urlsplit(text if "://" in text else "http://" + text)
        if p.scheme != "http" or not p.hostname:
            raise ValueError
        proxy_port = p.port or 80
    except ValueError:
        raise make("invalid", "is not the address of an HTTP proxy; use http://HOST:PORT", field=name.upper()) from None
    login = ""
    if p.username:
        pair = "%s:%s" % (unquote(p.username), unquote(p.password or ""))
        login = "Basic " + b64encode(pair.encode()).decode("ascii")
    return Proxy(p.hostname, proxy_port, login)


def excluded(host: str, port: int, rules: str) -> bool:
    """Whether NO_PROXY names a host: ``*``, a domain with its subdomains, an address, a network, each with a port or without."""
    host = host.lower().rstrip(".")
    for rule in rules.lower().replace(",", " ").split():
        if rule == "*":
            return True
        name, colon, at = rule.rpartition(":")
        if colon and at.isdecimal() and (":" not in name or name.endswith("]")):  # not a bare IPv6 address
            if int(at) != port:
                continue
            rule = name
        rule = rule.strip("[]")
        try:
            if ip_address(host) in ip_network(rule, strict=False):
                return True
        except ValueError:  # a name
            domain = rule[1:] if rule.startswith("*.") else rule
            if domain and (host == domain.lstrip(".") and not domain.startswith(".") or host.endswith("." + domain.lstrip("."))):
                return True
    return False
