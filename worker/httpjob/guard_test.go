package httpjob_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker/httpjob"
)

// inner is a receiver on loopback that must not be reached. It counts connections, not requests.
type inner struct {
	port uint16
	hits atomic.Int32
}

func newInner(t *testing.T) *inner {
	t.Helper()
	in := &inner{}
	first, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in.port = uint16(first.Addr().(*net.TCPAddr).Port)
	listeners := []net.Listener{first}
	for _, other := range []string{"[::1]:%d", "127.0.0.2:%d"} { // not each system has these
		if l, err := net.Listen("tcp", fmt.Sprintf(other, in.port)); err == nil {
			listeners = append(listeners, l)
		}
	}
	for _, l := range listeners {
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go func() { _ = server.Serve(counting{l, &in.hits}) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	return in
}

type counting struct {
	net.Listener
	hits *atomic.Int32
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.hits.Add(1)
	}
	return conn, err
}

func caller(t *testing.T, o httpjob.Options) *httpjob.Caller {
	t.Helper()
	c, err := httpjob.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refused are URLs that no request may go to, PORT being one that is allowed. Those behind names
// are refused when the connection is made.
var refused = strings.Fields(`
	http://127.0.0.1:PORT/ http://127.0.0.2:PORT/ http://127.255.255.254:PORT/ http://0.0.0.0:PORT/ http://0.1.2.3:PORT/
	http://[::1]:PORT/ http://[::]:PORT/ http://[0:0:0:0:0:0:0:1]:PORT/ http://[::127.0.0.1]:PORT/ http://[::ffff:127.0.0.1]:PORT/ http://[::ffff:7f00:1]:PORT/
	http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/ http://[::ffff:8.8.8.8]:PORT/ http://[::ffff:0:127.0.0.1]:PORT/ http://[::8.8.8.8]:PORT/
	http://localhost:PORT/ http://localhost.:PORT/ http://LOCALHOST:PORT/ http://LocalHost.:PORT/ http://%6cocalhost:PORT/
	http://2130706433:PORT/ http://2130706433.:PORT/ http://0x7f000001:PORT/ http://0X7F000001:PORT/ http://017700000001:PORT/ http://0x7f.0.0.1:PORT/
	http://0177.0.0.1:PORT/ http://0177.0.0.01:PORT/ http://127.1:PORT/ http://127.0.1:PORT/ http://127.0.0.1.:PORT/ http://127.0.0.0x1:PORT/ http://0:PORT/
	http://0x:PORT/ http://127.0.0.256:PORT/ http://1.2.3.4.5:PORT/ http://００１２７.0.0.1:PORT/ http://127。0。0。1:PORT/ http://①②⑦.⓪.⓪.①:PORT/
	http://10.0.0.1:PORT/ http://10.255.255.255:PORT/ http://172.16.0.1:PORT/ http://172.31.255.255:PORT/ http://192.168.0.1:PORT/ http://192.168.255.255:PORT/
	http://169.254.169.254:PORT/latest/meta-data/ http://169.254.0.1:PORT/ http://100.64.0.1:PORT/ http://100.127.255.255:PORT/
	http://192.0.0.1:PORT/ http://192.0.0.170:PORT/ http://192.0.2.1:PORT/ http://192.88.99.1:PORT/ http://198.18.0.1:PORT/ http://198.19.255.255:PORT/
	http://198.51.100.1:PORT/ http://203.0.113.1:PORT/ http://224.0.0.1:PORT/ http://239.255.255.255:PORT/ http://240.0.0.1:PORT/ http://255.255.255.255:PORT/
	http://[fe80::1]:PORT/ http://[fe80::1%25lo]:PORT/ http://[fe80::1%25eth0]:PORT/ http://[::1%25lo]:PORT/ http://[febf::1]:PORT/ http://[fc00::1]:PORT/
	http://[fd00:ec2::254]:PORT/ http://[ff02::1]:PORT/ http://[64:ff9b::7f00:1]:PORT/ http://[64:ff9b::127.0.0.1]:PORT/ http://[64:ff9b:1::1]:PORT/
	http://[2002:7f00:1::]:PORT/ http://[2002:a00:1::1]:PORT/ http://[2001::1]:PORT/ http://[2001:db8::1]:PORT/ http://[2001:10::1]:PORT/ http://[3fff::1]:PORT/
	http://[100::1]:PORT/ http://[5f00::1]:PORT/ http://[fec0::1]:PORT/ http://[4000::1]:PORT/
	http://user@127.0.0.1:PORT/ http://user:password@localhost:PORT/ http://8.8.8.8@127.0.0.1:PORT/ http://@127.0.0.1:PORT/ http://127.0.0.1:PORT#@8.8.8.8/
	http://8.8.8.8:22/ http://8.8.8.8:0/ http://8.8.8.8:99999/ http://8.8.8.8:/ http://8.8.8.8:080x/ http://8.8.8.8:-80/ https://8.8.8.8:8443/
	http://:PORT/ http:///path http:127.0.0.1:PORT //127.0.0.1:PORT/ 127.0.0.1:PORT ftp://127.0.0.1:PORT/ file:///etc/passwd gopher://127.0.0.1:PORT/
	unix:///var/run/docker.sock javascript:alert(1) http+unix://%2Fvar%2Frun/ http://[127.0.0.1]:PORT/ http://[::1]:PORT@8.8.8.8/ http://127.0.0.1%00.example:PORT/
	http://127.0.0.1\@8.8.8.8:PORT/ http:\\127.0.0.1:PORT/ http://loop.test:PORT/ http://chain.test:PORT/ http://six.test:PORT/ http://mapped.test:PORT/
	http://private.test:PORT/ http://metadata.test:PORT/ http://nat64.test:PORT/ http://zero.test:PORT/ http://mixed.test:PORT/ http://LOOP.TEST.:PORT/
`)

// TestNoRequestGoesInside: no request connects to a non-public address, in any notation.
func TestNoRequestGoesInside(t *testing.T) {
	in := newInner(t)
	t.Setenv("http_proxy", fmt.Sprintf("http://127.0.0.1:%d", in.port)) // is not used
	t.Setenv("HTTPS_PROXY", fmt.Sprintf("http://127.0.0.1:%d", in.port))
	c := caller(t, httpjob.Options{AllowHTTP: true, AllowPorts: []uint16{in.port}, Resolver: newNames(t).resolver()})
	if len(refused) < 100 {
		t.Fatalf("only %d URLs", len(refused))
	}
	for _, address := range refused {
		address = strings.ReplaceAll(address, "PORT", fmt.Sprint(in.port))
		args := httpjob.Args{URL: address, Method: "GET", Timeout: httpjob.Duration(5 * time.Second)}
		err := c.Run(t.Context(), &sojourn.Job{ID: 1, Kind: "http"}, args)
		out := sojourn.OutcomeOf(err)
		if out.Type != sojourn.OutcomeAbort || out.Reason != httpjob.ReasonRefused {
			t.Errorf("%s: %s %s %v", address, out.Type, out.Reason, err)
		}
	}
	if n := in.hits.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestWhatIsPublicIsAllowed: the guard is no wall. Nothing is sent: the context has ended.
func TestWhatIsPublicIsAllowed(t *testing.T) {
	c := caller(t, httpjob.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, address := range strings.Fields(`https://8.8.8.8/ https://8.8.8.8:443/ https://9.255.255.255/ https://11.0.0.0/ https://172.15.255.255/ https://172.32.0.0/ https://192.167.255.255/
		https://100.63.255.255/ https://100.128.0.0/ https://169.253.0.1/ https://198.17.255.255/ https://198.20.0.0/ https://223.255.255.255/
		https://[2606:4700:4700::1111]/ https://[2001:200::1]/ https://[2a00:1450::1]:443/ https://example.com/a?b=c https://xn--bcher-kva.example/ https://bücher.example/ https://0x7f.example/ https://1.2.3.example/`) {
		err := c.Run(ctx, &sojourn.Job{ID: 1}, httpjob.Args{URL: address, Method: "GET"})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"http://8.8.8.8/", "http://8.8.8.8:443/", "https://8.8.8.8:80/", "https://8.8.8.8:8443/"} { // https on 443 is all without options
		if out := sojourn.OutcomeOf(c.Run(ctx, &sojourn.Job{ID: 1}, httpjob.Args{URL: address, Method: "GET"})); out.Type != sojourn.OutcomeAbort {
			t.Errorf("%s: %+v", address, out)
		}
	}
}

// TestRebinding: DNS rebinding is refused: a name that first resolves to an allowed address and
// then to an internal one. Each connection is checked on its own.
func TestRebinding(t *testing.T) {
	in := newInner(t)
	names := newNames(t)
	nobody := netip.MustParsePrefix("192.0.2.0/24") // documentation addresses replace public ones: no host answers there
	c := caller(t, httpjob.Options{AllowHTTP: true, AllowCIDR: []netip.Prefix{nobody}, AllowPorts: []uint16{in.port}, Resolver: names.resolver()})
	args := httpjob.Args{URL: fmt.Sprintf("http://rebind.test:%d/", in.port), Method: "GET", Timeout: httpjob.Duration(300 * time.Millisecond)}
	first := sojourn.OutcomeOf(c.Run(t.Context(), &sojourn.Job{ID: 1}, args))
	if first.Type != sojourn.OutcomeError || first.Reason == httpjob.ReasonRefused {
		t.Errorf("the first time: %+v", first)
	}
	if second := sojourn.OutcomeOf(c.Run(t.Context(), &sojourn.Job{ID: 1}, args)); second.Type != sojourn.OutcomeAbort || second.Reason != httpjob.ReasonRefused {
		t.Errorf("the second time: %+v", second)
	}
	if n := in.hits.Load(); n > 0 || names.count("rebind.test") < 2 {
		t.Errorf("%d connections, the name was asked for %d times", n, names.count("rebind.test"))
	}
}

// TestAllowedInside: an operator may allow a network, and nothing beside it.
func TestAllowedInside(t *testing.T) {
	got := make(chan *http.Request, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r }))
	defer s.Close()
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	c := caller(t, httpjob.Options{AllowHTTP: true, AllowCIDR: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, AllowPorts: []uint16{at.Port()}, Resolver: newNames(t).resolver()})
	for _, host := range []string{"127.0.0.1", "chain.test"} {
		job := &sojourn.Job{ID: 1}
		if err := c.Run(t.Context(), job, httpjob.Args{URL: fmt.Sprintf("http://%s:%d/", host, at.Port()), Method: "GET"}); err != nil || len(got) != 1 {
			t.Fatalf("%s: %v", host, err)
		}
		<-got
	}
	for _, host := range []string{"127.0.0.2", "[::1]", "zero.test"} {
		if out := sojourn.OutcomeOf(c.Run(t.Context(), &sojourn.Job{ID: 1}, httpjob.Args{URL: fmt.Sprintf("http://%s:%d/", host, at.Port()), Method: "GET"})); out.Reason != httpjob.ReasonRefused {
			t.Errorf("%s: %+v", host, out)
		}
	}
}

// names is a small name server (RFC 1035) on loopback.
type names struct {
	conn net.PacketConn
	mu   sync.Mutex
	asks map[string]int
}

func newNames(t *testing.T) *names {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{conn: conn, asks: map[string]int{}}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(n.answer(b[:size]), from)
		}
	}()
	return n
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", n.conn.LocalAddr().String())
	}}
}

func (n *names) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asks[name]
}

// zone has the addresses of names; a name among them is an alias.
var zone = map[string][]string{
	"loop.test": {"127.0.0.1"}, "chain.test": {"link.test"}, "link.test": {"last.test"}, "last.test": {"127.0.0.1"}, "six.test": {"::1"},
	"mapped.test": {"::ffff:127.0.0.1"}, "private.test": {"10.0.0.1", "192.168.0.1"}, "metadata.test": {"169.254.169.254"}, "nat64.test": {"64:ff9b::7f00:1"},
	"localhost": {"127.0.0.1"}, "zero.test": {"0.0.0.0"}, "mixed.test": {"127.0.0.1", "10.0.0.1", "::1"}, "rebind.test": {"192.0.2.1"},
}

const (
	typeA, typeCNAME, typeAAAA = 1, 5, 28
)

func (n *names) answer(question []byte) []byte {
	name, end := readName(question[12:])
	kind := binary.BigEndian.Uint16(question[12+end:])
	out := append([]byte{}, question[:12+end+4]...)
	binary.BigEndian.PutUint16(out[2:], 0x8180)               // a response, recursion available
	copy(out[6:], []byte{0, 0, 0, 0, 0, 0})                   // no records yet
	for owner := strings.ToLower(name); zone[owner] != nil; { // follows aliases
		addresses := zone[owner]
		if owner == "rebind.test" && kind == typeA {
			n.mu.Lock()
			if n.asks[owner]++; n.asks[owner] > 1 {
				addresses = []string{"127.0.0.1"}
			}
			n.mu.Unlock()
		}
		next := ""
		for _, a := range addresses {
			ip, err := netip.ParseAddr(a)
			switch {
			case err != nil:
				next = a
				out = record(out, owner, typeCNAME, writeName(a))
			case ip.Is4() && kind == typeA, !ip.Is4() && kind == typeAAAA:
				out = record(out, owner, kind, ip.AsSlice())
			}
		}
		owner = next
	}
	if zone[strings.ToLower(name)] == nil {
		out[3] |= 3 // there is no such name
	}
	return out
}

// record appends a record that must not be cached.
func record(out []byte, owner string, kind uint16, data []byte) []byte {
	out = append(out, writeName(owner)...)
	out = binary.BigEndian.AppendUint16(out, kind)
	out = append(out, 0, 1, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(len(data)))
	out[7]++
	return append(out, data...)
}

func readName(b []byte) (string, int) {
	var labels []string
	at := 0
	for b[at] != 0 {
		labels = append(labels, string(b[at+1:at+1+int(b[at])]))
		at += 1 + int(b[at])
	}
	return strings.Join(labels, "."), at + 1
}

func writeName(name string) (b []byte) {
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0)
}
