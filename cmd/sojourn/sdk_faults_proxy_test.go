package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// faultTable is sdk/faults.json.
type faultTable struct {
	Calls  map[string][]string
	Faults []*fault
}

// fault is something that a proxy answers in the place of the server.
type fault struct {
	Name       string
	Act        string // how, if it is not simply an answer
	Status     int
	Headers    map[string]string
	Body       string
	BodyBase64 []byte `json:"body_base64"`
	Executed   bool   // the request always reaches the server
	Before     bool   // it never does
	Times      int    // requests that meet it; default 2, in turns before and after the request was executed
	Short      bool
	Skip, Only []string // calls
	About      string
}

// faultRow is a fault on a call of one client. The fields below mu belong to the proxy.
type faultRow struct {
	N     int    `json:"n"`
	Call  string `json:"call"`
	fault *fault
	only  string // the fault meets requests whose body has this text

	mu       sync.Mutex
	left     int
	met      int           // requests that met the fault
	written  int64         // bytes of the body that the client has taken
	extended chan struct{} // closed once a lease was extended after the last fault
	over     chan struct{} // closed when the client has finished the row
}

// faultProxy sends /rN/... on to a server, with the fault of row N in between.
type faultProxy struct {
	*testing.T
	server string
	calls  map[string][]string
	rows   []*faultRow
	client *http.Client
}

func (p *faultProxy) start() (url string) {
	p.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}}
	s := httptest.NewServer(p)
	p.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		p.client.CloseIdleConnections()
	})
	return s.URL
}

var rowPath = regexp.MustCompile(`^/r(\d+)(/.*)$`)

func (p *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := rowPath.FindStringSubmatch(r.URL.Path)
	if m == nil {
		http.Error(w, "no row", http.StatusTeapot)
		return
	}
	n, _ := strconv.Atoi(m[1])
	row, path := p.rows[n], m[2]
	if path == "/extended" { // a handler waits until its lease was extended in spite of the fault
		select {
		case <-row.extended:
		case <-r.Context().Done():
		}
		return
	}
	if path == "/over" {
		close(row.over)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	call := p.called(path)
	turn := row.meets(call, body)
	if turn == 0 {
		a := p.forward(r, path, body)
		if a.StatusCode == http.StatusOK && call == "extend" {
			row.wasExtended()
		}
		a.send(w)
		return
	}
	var a *answered
	if row.fault.Executed || turn%2 == 0 && !row.fault.Before || slices.Contains([]string{"truncated", "half", "shorter", "longer"}, row.fault.Act) {
		a = p.forward(r, path, body)
	}
	row.act(w, r, a)
}

// called is the name of the call that a path belongs to.
func (p *faultProxy) called(path string) string {
	if job, is := strings.CutPrefix(path, "/v1/jobs/"); is {
		if _, err := strconv.Atoi(job); err == nil {
			path = "/v1/jobs/ID"
		}
	}
	for call, paths := range p.calls {
		if slices.Contains(paths, path) {
			return call
		}
	}
	return ""
}

// meets counts a request that meets the fault: 1 for the first, 0 for one that passes.
func (row *faultRow) meets(call string, body []byte) int {
	row.mu.Lock()
	defer row.mu.Unlock()
	if call != row.Call || row.left == 0 || !bytes.Contains(body, []byte(row.only)) {
		return 0
	}
	row.left--
	row.met++
	return row.met
}

func (row *faultRow) wasExtended() {
	row.mu.Lock()
	defer row.mu.Unlock()
	select {
	case <-row.extended:
	default:
		if row.left == 0 || row.Call != "extend" {
			close(row.extended)
		}
	}
}

// answered is an answer of the server.
type answered struct {
	*http.Response
	body []byte
}

func (p *faultProxy) forward(r *http.Request, path string, body []byte) *answered {
	url := p.server + path
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, url, bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header = r.Header.Clone()
	got, err := p.client.Do(out)
	if err != nil { // the client has gone
		panic(http.ErrAbortHandler)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return &answered{got, b}
}

func (a *answered) send(w http.ResponseWriter) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.StatusCode)
	_, _ = w.Write(a.body)
}

// act answers with the fault. a is the server's answer, nil if it has not seen the request.
func (row *faultRow) act(w http.ResponseWriter, r *http.Request, a *answered) {
	f := row.fault
	for name, value := range f.Headers {
		latin := make([]byte, 0, len(value))
		for _, c := range value {
			latin = append(latin, byte(c))
		}
		w.Header().Set(name, string(latin))
	}
	switch f.Act {
	case "":
		w.WriteHeader(f.Status)
		_, _ = w.Write(append([]byte(f.Body), f.BodyBase64...))
	case "deep":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bytes.Repeat([]byte("["), 200_000))
	case "hang":
		row.hold(r)
	case "drip":
		w.Header().Set("Content-Type", "application/json")
		row.drip(w, r, " ")
	case "drip_headers":
		row.dripHeaders(w, r)
	case "endless":
		w.Header().Set("Content-Type", "application/json")
		row.endless(w)
	case "announced":
		row.raw(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1099511627776\r\n\r\n{")
	case "raw":
		row.raw(w, f.Body)
	case "cut":
		panic(http.ErrAbortHandler)
	case "truncated":
		row.raw(w, fmt.Sprintf("HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", a.StatusCode, len(a.body), a.body[:len(a.body)/2]))
	case "half":
		a.body = a.body[:len(a.body)/2]
		a.send(w)
	case "shorter", "longer":
		a.body = listsOf(a.body, f.Act == "longer")
		a.send(w)
	default:
		panic("no such act: " + f.Act)
	}
}

// hold waits until the client or the row has ended.
func (row *faultRow) hold(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-row.over:
	}
	panic(http.ErrAbortHandler)
}

func (row *faultRow) drip(w http.ResponseWriter, r *http.Request, text string) {
	for {
		_, err := io.WriteString(w, text)
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		select {
		case <-time.After(50 * time.Millisecond): // the pace of the fault
		case <-r.Context().Done():
			return
		case <-row.over:
			return
		}
	}
}

func (row *faultRow) dripHeaders(w http.ResponseWriter, r *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	text := "HTTP/1.1 200 OK\r\nX-Slow: "
	for {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
		text = "x"
		select {
		case <-time.After(50 * time.Millisecond): // the pace of the fault
		case <-row.over:
			return
		}
	}
}

// endless writes up to 1 GiB and counts what the client has taken.
func (row *faultRow) endless(w http.ResponseWriter) {
	if row.fault.Status != 0 {
		w.WriteHeader(row.fault.Status)
	}
	block := bytes.Repeat([]byte(" "), 1<<16)
	for range 1 << 14 {
		n, err := w.Write(block)
		row.mu.Lock()
		row.written += int64(n)
		row.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (row *faultRow) raw(w http.ResponseWriter, text string) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = buffered.WriteString(text)
	_ = buffered.Flush()
	if row.fault.Act == "announced" { // the body does not come
		select {
		case <-row.over:
		case <-closed(buffered.Reader):
		}
	}
}

// closed is closed when the other side has ended the connection.
func closed(r *bufio.Reader) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = r.ReadByte()
	}()
	return end
}

// listsOf is an answer whose lists have lost their last item, or have it twice.
func listsOf(body []byte, longer bool) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return body
	}
	for name, text := range fields {
		var items []json.RawMessage
		if json.Unmarshal(text, &items) != nil || len(items) == 0 {
			continue
		}
		if longer {
			items = append(items, items[len(items)-1])
		} else {
			items = items[:len(items)-1]
		}
		fields[name], _ = json.Marshal(items) // it was JSON before
	}
	b, _ := json.Marshal(fields)
	return b
}
