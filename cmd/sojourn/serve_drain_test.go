package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soon waits until something holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestServeDrains: between SIGTERM and its end a server is not ready, takes no new work, ends long
// polls and still takes the outcomes of workers. A request that it has begun is finished, and the
// exit code is 0.
func TestServeDrains(t *testing.T) {
	s := serve(t, "--store", "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), "--notice", "2s", "--grace", "20s", "--log", "json", "--pprof", "127.0.0.1:0")
	soon(t, "not ready", func() bool { status, _ := s.send("GET", "/readyz", "", ""); return status == 200 })
	s.profiled()
	if status, body := s.send("POST", "/v1/jobs", `{"kind":"k"}`, ""); status != 201 {
		t.Fatalf("enqueue: %d %s", status, body)
	}
	_, body := s.send("POST", "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["k"],"max":1}`, "")
	var claimed struct {
		Jobs []struct{ Lease json.RawMessage }
	}
	if err := json.Unmarshal([]byte(body), &claimed); err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("claim: %s", body)
	}
	polled := make(chan string, 1)
	go func() {
		_, body := s.send("POST", "/v1/claim", `{"worker":"w2","queues":["none"],"kinds":["k"],"max":1,"wait":"60s"}`, "")
		polled <- body
	}()
	soon(t, "no long poll", func() bool { return strings.Contains(metricsOf(s, ""), "sojourn_http_long_polls 1") })
	finish := s.slowly("/v1/jobs", `{"kind":`)
	soon(t, "a body is on its way and nobody reads it", func() bool { return strings.Contains(metricsOf(s, ""), "sojourn_http_bodies 1") })
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	soon(t, "it stays ready", func() bool { status, _ := s.send("GET", "/readyz", "", ""); return status == 503 })
	if got := <-polled; !strings.Contains(got, `"jobs":[]`) {
		t.Errorf("the long poll answered %s", got)
	}
	if status, body := s.send("POST", "/v1/jobs", `{"kind":"k"}`, ""); status != 503 || !strings.Contains(body, `"draining"`) {
		t.Errorf("a new job: %d %s", status, body)
	}
	if status, body := s.send("POST", "/v1/finish", `{"outcomes":[{"lease":`+string(claimed.Jobs[0].Lease)+`,"type":"completed"}]}`, ""); status != 200 || !strings.Contains(body, `"applied"`) {
		t.Errorf("an outcome: %d %s", status, body)
	}
	if got := finish(`"k"}`); !strings.Contains(got, `"state":"ready"`) {
		t.Errorf("a request that was begun before the end: %s", got)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, s.log())
	}
	s.logged()
}

// slowly sends half of a request; finish sends the rest and gives the answer.
func (s *started) slowly(path, half string) (finish func(rest string) string) {
	s.Helper()
	read, write := io.Pipe()
	r, err := http.NewRequestWithContext(s.Context(), "POST", s.url+path, read)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer := make(chan string, 1)
	go func() {
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer got.Body.Close()
		b, _ := io.ReadAll(got.Body)
		answer <- string(b)
	}()
	if _, err := io.WriteString(write, half); err != nil {
		s.Fatal(err)
	}
	return func(rest string) string {
		s.Helper()
		_, _ = io.WriteString(write, rest)
		_ = write.Close()
		select {
		case got := <-answer:
			return got
		case <-time.After(patience):
			return "nothing"
		}
	}
}

// profiled: profiles are on their own address, which the log names, and not on that of the API.
func (s *started) profiled() {
	s.Helper()
	addr := regexp.MustCompile(`"msg":"profiles","addr":"([^"]+)"`).FindStringSubmatch(s.log())
	if addr == nil {
		s.Fatalf("no address of profiles in\n%s", s.log())
	}
	other := *s
	other.url = "http://" + addr[1]
	if status, body := other.send("GET", "/debug/pprof/", "", ""); status != 200 || !strings.Contains(body, "goroutine") {
		s.Errorf("profiles: %d %s", status, body)
	}
	if status, _ := s.send("GET", "/debug/pprof/", "", ""); status != 404 {
		s.Errorf("profiles at the API: %d", status)
	}
}

// logged: each request is one line in JSON with its id, also one that the caller has chosen.
func (s *started) logged() {
	s.Helper()
	requests := 0
	for line := range strings.Lines(s.log()) {
		var l struct {
			Msg, Route string
			ID         string `json:"request_id"`
			Status     int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			s.Errorf("not JSON: %s", line)
		}
		if l.Msg == "request" {
			requests++
			if l.ID == "" || l.Status == 0 {
				s.Errorf("a request without id or status: %s", line)
			}
		}
	}
	if requests < 6 {
		s.Errorf("%d requests are logged", requests)
	}
}

// TestServeReloadsItsCertificate: new files are used by the next connections, a pair that does not
// fit is not.
func TestServeReloadsItsCertificate(t *testing.T) {
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	writePair(t, cert, key, 1)
	s := serve(t, "--store", "sqlite:"+filepath.Join(folder, "jobs.db"), "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("the server is at %s", s.url)
	}
	serial := func() int64 {
		t.Helper()
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: &tls.Config{InsecureSkipVerify: true}} // the test looks at the certificate itself
		c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Fatalf("the first certificate is %d", n)
	}
	writePair(t, cert, filepath.Join(folder, "other.pem"), 2) // with the old key it does not fit
	time.Sleep(time.Second + 100*time.Millisecond)
	if n := serial(); n != 1 {
		t.Errorf("a pair that does not fit is used: %d", n)
	}
	writePair(t, cert, key, 3)
	soon(t, "the new certificate is not used", func() bool { return serial() == 3 })
}

// writePair writes a new certificate with this number, and its key.
func writePair(t *testing.T, cert, key string, number int64) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: bytes}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
