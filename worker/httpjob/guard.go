package httpjob

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// RefusedError says that a request was not sent, because of the address to which it would have
// gone.
type RefusedError struct {
	Address string // as connected to, behind all names
	Why     string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("httpjob: %s is refused: %s", e.Address, e.Why)
}

// inside are the parts of the Internet's address space that lead somewhere else (IANA's registries
// of special-purpose addresses). Of IPv6 only 2000::/3 is given out, so all else is inside.
var inside = prefixes("0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 " +
	"198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20")

var (
	globalUnicast6 = netip.MustParsePrefix("2000::/3")
	mapped         = netip.MustParsePrefix("::ffff:0:0/96")
)

func prefixes(text string) (all []netip.Prefix) {
	for p := range strings.FieldsSeq(text) {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

// guard decides which addresses requests may connect to.
type guard struct {
	allowHTTP bool
	allowed   []netip.Prefix
	ports     []uint16
}

// checkAddress checks an address before the connection.
func (g *guard) checkAddress(at netip.AddrPort) error {
	addr := at.Addr() // never IPv4-mapped IPv6, which would be refused because it is not in 2000::/3
	refuse := func(why string) error { return &RefusedError{at.String(), why} }
	if addr.Zone() != "" {
		return refuse("an address with a zone is on a link of this machine")
	}
	if !slices.Contains(g.ports, at.Port()) {
		return refuse(fmt.Sprintf("the port is not one of %v; the worker allows others with --allow-port", g.ports))
	}
	in := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case slices.ContainsFunc(g.allowed, in):
		return nil
	case addr.Is6() && !globalUnicast6.Contains(addr), slices.ContainsFunc(inside, in):
		return refuse("it is no public address; the worker allows networks with --allow-cidr")
	}
	return nil
}

// checkURL checks the URL without the network. The address of a name is checked before the
// connection.
func (g *guard) checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return sojourn.Invalid("url", "%.64q is neither https nor http", u.Scheme)
	case u.Scheme == "http" && !g.allowHTTP:
		return sojourn.Invalid("url", "http is not encrypted: use https, or let the worker allow it with --allow-http")
	case u.User != nil:
		return sojourn.Invalid("url", "has a user or a password: send them in a header")
	case u.Hostname() == "" || u.Opaque != "":
		return sojourn.Invalid("url", "has no host")
	case u.Fragment != "":
		return sojourn.Invalid("url", "has a fragment, which is never sent; remove it")
	case strings.HasSuffix(u.Host, ":"):
		return sojourn.Invalid("url", "has a colon without a port; add the port or remove the colon")
	}
	port := 443
	if u.Scheme == "http" {
		port = 80
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return sojourn.Invalid("url", "%.16q is not a port", text)
		}
		port = int(n)
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		if mapped.Contains(addr.WithZone("")) {
			return &RefusedError{addr.String(), "it is IPv4 in the form of IPv6; write the IPv4 address"}
		}
		return g.checkAddress(netip.AddrPortFrom(addr, uint16(port)))
	}
	if numeric(u.Hostname()) {
		return sojourn.Invalid("url", "%.64q is not an address; write four decimal numbers, as in 192.0.2.1", u.Hostname())
	}
	if !slices.Contains(g.ports, uint16(port)) {
		return &RefusedError{u.Host, fmt.Sprintf("the port is not one of %v; the worker allows others with --allow-port", g.ports)}
	}
	return nil
}

// numeric reports whether a host ends in a number, as the URL standard has it. Resolvers of systems
// read such names as addresses, each in its own way: 2130706433, 0x7f.1 and 0177.0.0.1 may all be
// 127.0.0.1.
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	digits, hex := strings.CutPrefix(last, "0x")
	set := "0123456789"
	if hex {
		set += "abcdef"
	}
	return (hex || digits != "") && strings.Trim(digits, set) == ""
}

// dialer connects to what checkAddress allows. Control runs for each address, after its name was
// resolved and before the first packet.
func (g *guard) dialer(resolver *net.Resolver) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Resolver: resolver, Timeout: connectTime, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return &RefusedError{address, "it is not an address"}
		}
		return g.checkAddress(at)
	}}
	return d.DialContext
}
