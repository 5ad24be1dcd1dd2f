package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// dial opens a connection past every client library.
func (s *site) dial() *net.TCPConn {
	s.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

// post is a request with a body of some length, or chunks.
func post(path string, headers ...string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + strings.Join(append(headers, "", ""), "\r\n")
}

// TestSmuggling sends input that a proxy and this server could parse as different requests. It is
// refused, or nothing after it is read.
func TestSmuggling(t *testing.T) {
	s := newSite(t, Options{Open: true})
	job, hidden := `{"kind":"k"}`, post("/v1/jobs", "Content-Length: 12")+`{"kind":"h"}`
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	for _, c := range []struct {
		name, text string
		status     int // of the first answer
		stored     int
	}{
		{"two lengths", post("/v1/jobs", "Content-Length: 12", "Content-Length: 13") + job + hidden, 400, 0},
		{"a length that is none", post("/v1/jobs", "Content-Length: +12") + job, 400, 0},
		{"a negative length", post("/v1/jobs", "Content-Length: -1") + job, 400, 0},
		{"chunks named twice", post("/v1/jobs", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + chunk(job) + "0\r\n\r\n", 501, 0},
		{"another transfer encoding", post("/v1/jobs", "Transfer-Encoding: gzip, chunked") + chunk(job) + "0\r\n\r\n", 501, 0},
		{"a blank before the colon", post("/v1/jobs", "Content-Length : 12") + job, 400, 0},
		{"a bad chunk", post("/v1/jobs", "Transfer-Encoding: chunked") + "zz\r\n" + job, 400, 0},
		{"a chunk that is too long", post("/v1/jobs", "Transfer-Encoding: chunked") + "4\r\n" + job + "\r\n0\r\n\r\n", 400, 0},
		{"a chunk length without end", post("/v1/jobs", "Transfer-Encoding: chunked") + strings.Repeat("f", 40) + "\r\n" + job, 400, 0},
		{"length and chunks", post("/v1/jobs", "Content-Length: 4", "Transfer-Encoding: chunked") + chunk(job) + "0\r\n\r\n" + hidden, 201, 1},
		{"HTTP/0.9", "GET /v1/jobs\r\n\r\n", 400, 1},
		{"no host", "GET /v1/jobs HTTP/1.1\r\n\r\n", 400, 1},
		{"two hosts", "GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n", 400, 1},
		{"NUL in the path", "GET /v1/jobs/\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, 1},
		{"NUL in a header", "GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: \x00\r\n\r\n", 400, 1},
	} {
		conn := s.dial()
		if _, err := io.WriteString(conn, c.text); err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(conn) // the server ends each of these connections
		var status int
		_, _ = fmt.Sscanf(string(b), "HTTP/1.1 %d", &status)
		if status != c.status || strings.Count(string(b), "HTTP/1.1 ") != 1 {
			t.Errorf("%s: answered %.300q, want one answer with %d", c.name, b, c.status)
		}
		if n := s.stored(); n != c.stored {
			t.Fatalf("%s: %d jobs are stored, want %d", c.name, n, c.stored)
		}
	}
}

// TestPaths: the meaning of a path does not depend on the component that cleans it.
func TestPaths(t *testing.T) {
	s := newSite(t, Options{Open: true})
	for _, path := range []string{"//v1/jobs", "/v1//jobs", "/v1/../v1/jobs", "/v1/./jobs", "/v1/jobs/", "/v1/queues/../jobs", "/v1/jobs/..%2f..%2fetc",
		"/v1/queues/" + strings.Repeat("q", 8<<10) + "/why"} {
		a := s.raw("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		if a.status != http.StatusNotFound && a.status != http.StatusUnprocessableEntity || a.code == "" || len(a.body) > 1000 {
			t.Errorf("%.80s: answered %d %s", path, a.status, a.body)
		}
	}
	if a := s.send(http.MethodPut, "/v1/queues/..%2Fetc", `{"paused":true}`); a.status != http.StatusOK && a.code != "invalid" {
		t.Errorf("a queue with a slash in its name: %d %s", a.status, a.body)
	}
}

// TestSlowBody: a body that trickles is cut, and others are answered meanwhile.
func TestSlowBody(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.server.setPatience(300 * time.Millisecond)
	conn := s.dial()
	if _, err := io.WriteString(conn, post("/v1/jobs", "Content-Length: 1000")+"{"); err != nil {
		t.Fatal(err)
	}
	s.want("another", s.send(http.MethodGet, "/v1/status", ""), 200, "")
	began := time.Now()
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.want("the slow one", s.read(got), 408, "body_timeout")
	if took := time.Since(began); took > patience/2 || !got.Close {
		t.Errorf("it took %v, and the connection is closed: %v", took, got.Close)
	}
}

// TestLargeBodyIsNotRead: the answer comes before the body, and the connection ends.
func TestLargeBodyIsNotRead(t *testing.T) {
	s := newSite(t, Options{Open: true})
	conn := s.dial()
	if _, err := io.WriteString(conn, post("/v1/jobs", "Content-Length: 99999999")); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := s.read(got)
	s.want("a long body", a, 413, "body_too_large")
	if !got.Close || !strings.Contains(a.body, "limit of") {
		t.Errorf("the connection is closed: %v; %s", got.Close, a.body)
	}
}

// TestStreamIsCut: every acknowledged line is stored, half a line is not. An invalid line does not
// end the stream.
func TestStreamIsCut(t *testing.T) {
	s := newSite(t, Options{Open: true})
	conn := s.dial()
	_, _ = io.WriteString(conn, strings.Replace(post("/v1/jobs/stream", "Transfer-Encoding: chunked"), "application/json", ndjsonType, 1))
	send := func(text string) { _, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(text), text) }
	const lines = 500
	for i := range lines {
		line := fmt.Sprintf(`{"kind":"k","key":"line-%d"}`, i)
		switch i {
		case 100:
			line = `{"kind":"k","key":"broken`
		case 200:
			line = "{\"kind\":\"\xff\"}"
		case 300:
			line = `{"kind":"k","kind":"k"}`
		}
		send(line + "\n")
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	acks, refused := 0, ""
	in := bufio.NewScanner(got.Body)
	for n := 1; n <= lines && in.Scan(); n++ {
		var ack struct {
			Line  int
			ID    int64
			Error *struct{ Code string }
		}
		if err := json.Unmarshal(in.Bytes(), &ack); err != nil || ack.Line != n {
			t.Fatalf("acknowledgement %d: %s %v", n, in.Bytes(), err)
		}
		if ack.Error != nil {
			refused += fmt.Sprint(n-1, " ", ack.Error.Code, " ")
			continue
		}
		acks++
	}
	if refused != "100 malformed_json 200 invalid_utf8 300 duplicate_field " || acks != lines-3 {
		t.Errorf("%d lines are acknowledged, refused are %s", acks, refused)
	}
	_, _ = io.WriteString(conn, "20\r\n"+`{"kind":"k","key`)
	_ = conn.SetLinger(0) // a reset, as when the machine at the other end goes
	_ = conn.Close()
	s.settle(lines - 3)
}

// settle wants so many jobs stored, also after the server is done with all requests.
func (s *site) settle(want int) {
	s.Helper()
	for end := time.Now().Add(patience); s.server.admit.Requests() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatal("a request does not end")
		}
	}
	if n := s.stored(); n != want {
		s.Errorf("%d jobs are stored, want %d", n, want)
	}
}

// TestCutBody: a connection that ends in the middle of a body leaves nothing behind.
func TestCutBody(t *testing.T) {
	s := newSite(t, Options{Open: true})
	for _, reset := range []bool{false, true} {
		conn := s.dial()
		_, _ = io.WriteString(conn, post("/v1/jobs/batch", "Content-Length: 100")+`{"jobs":[{"kind":"k"},{"kind":"k"}`)
		if reset {
			_ = conn.SetLinger(0)
		}
		_ = conn.Close()
	}
	s.settle(0)
}

// absent is a store whose claims come when the caller has gone.
type absent struct {
	driver.Store
	asked chan struct{}
}

func (a absent) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	close(a.asked)
	<-ctx.Done() // the server has noticed
	return a.Store.Claim(context.WithoutCancel(ctx), r)
}

// TestClaimIsGivenBack: jobs claimed for a caller that disconnected are ready again at once, and no
// failure is counted.
func TestClaimIsGivenBack(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.seed()
	a := absent{driver.Of(s.client), make(chan struct{})}
	s.server.store = a
	body := `{"worker":"leaves","queues":["q"],"kinds":["k"],"max":1}`
	conn := s.dial()
	_, _ = io.WriteString(conn, post("/v1/claim", fmt.Sprint("Content-Length: ", len(body)))+body)
	<-a.asked
	_ = conn.Close()
	s.settle(1)
	j, err := s.client.Get(t.Context(), 1)
	if err != nil || j.State != sojourn.Ready || j.Epoch == 0 || j.Failures+j.Crashes != 0 {
		t.Errorf("the job is %+v, %v", j, err)
	}
}

// TestClaimIsKept: a caller who leaves as soon as it has the answer keeps its jobs, as a script
// with curl does (inv:F1).
func TestClaimIsKept(t *testing.T) {
	s := newSite(t, Options{Open: true})
	const n = 200
	for range n {
		if _, err := s.client.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
			t.Fatal(err)
		}
		body := `{"worker":"leaves","queues":["default"],"kinds":["k"],"max":1}`
		if a := s.raw(post("/v1/claim", fmt.Sprint("Content-Length: ", len(body))) + body); !strings.Contains(a.body, `"lease"`) {
			t.Fatalf("the claim is answered with %s", a.body)
		}
	}
	s.settle(n)
	running, err := s.client.Store().Find(t.Context(), sojourn.Filter{States: []sojourn.State{sojourn.Running}, Limit: sojourn.MaxFind})
	if err != nil || len(running) != n {
		t.Errorf("%d of %d claimed jobs still run, %v", len(running), n, err)
	}
}
