package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Option changes how Dial reaches a server.
type Option func(*options)

type options struct {
	token     string
	cleartext bool
	transport http.RoundTripper
}

// Token sets the bearer token, as created by sojourn token create.
func Token(bearer string) Option { return func(o *options) { o.token = bearer } }

// Cleartext sends a token to another machine over http:// all the same. Whoever sees the traffic
// has the token then.
func Cleartext() Option { return func(o *options) { o.cleartext = true } }

// Transport replaces the HTTP transport, for certificates of one's own and for tests. The default
// keeps up to 256 idle connections.
func Transport(t http.RoundTripper) Option { return func(o *options) { o.transport = t } }

// Connections.
const (
	dialPatience = 10 * time.Second
	idleConns    = 256
	idleFor      = 90 * time.Second
)

// Dial makes a client of the server at http://HOST:PORT or https://HOST:PORT, with a path in front
// of /v1 where a proxy adds one. It does not connect yet: the first call does. The error is an
// *sojourn.Error with CodeInvalid about the URL.
//
// The client's store is a *Store. It repeats calls that failed on their way as often as that is
// safe, see Store.
func Dial(address string, list ...Option) (*sojourn.Client, error) {
	var o options
	for _, option := range list {
		option(&o)
	}
	u, err := Valid(address)
	if err != nil {
		return nil, err
	}
	if o.token != "" && u.Scheme == "http" && !o.cleartext && !loopback(u.Hostname()) {
		return nil, sojourn.Invalid("store", "a token would go to %.64q in clear text: use https://, or the option Cleartext in a network that you trust", u.Host)
	}
	if o.transport == nil {
		o.transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialPatience}).DialContext,
			TLSHandshakeTimeout: dialPatience, MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleFor, ForceAttemptHTTP2: true}
	}
	return sojourn.NewClient(newStore(u, o)), nil
}

// Valid checks the form of a URL for Dial, and nothing else. The error is an *sojourn.Error with
// CodeInvalid.
func Valid(address string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(address, "/"))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, sojourn.Invalid("store", "is no address of a server; use http://HOST:PORT or https://HOST:PORT")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, sojourn.Invalid("store", "a server's address has neither a user nor parameters; a token is given with SOJOURN_TOKEN or the option Token")
	}
	return u, nil
}

// loopback reports whether traffic to a host stays on this machine.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
