package outside

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	_ "github.com/oapi-codegen/runtime" // what the generator makes imports it, so this module has to require it
)

const root = "../../.."

// document is the committed one, accepted by a validator that is not ours.
func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join(root, "httpapi/server/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestValidatorRefuses is the control arm: the validator rejects an invalid document.
func TestValidatorRefuses(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "httpapi/server/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{`"#/components/schemas/Problem"`: `"#/components/schemas/Nothing"`, `"in": "query"`: `"in": "nowhere"`,
		`"type": "integer"`: `"type": "whole"`} {
		doc, err := openapi3.NewLoader().LoadFromData(bytes.ReplaceAll(b, []byte(from), []byte(to)))
		if err == nil {
			err = doc.Validate(t.Context())
		}
		if err == nil {
			t.Errorf("a document with %s is accepted", to)
		}
	}
}

// run runs a command to its end.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestGeneratedClient lets a client that a public generator has made of the document enqueue and
// complete a job on a server in a process of its own. Every answer on the way is held against the
// document.
func TestGeneratedClient(t *testing.T) {
	doc := document(t)
	folder := t.TempDir()
	sojourn, client := filepath.Join(folder, "sojourn"), filepath.Join(folder, "client")
	run(t, root, "go", "build", "-o", sojourn, "./cmd/sojourn")
	generate(t, folder)
	run(t, folder, "go", "build", "-o", client, ".")

	store := "sqlite:" + filepath.Join(folder, "jobs.db")
	token := strings.TrimSpace(run(t, folder, sojourn, "token", "create", "--store", store, "--name", "outside", "--verb", "admin"))
	between := watch(t, doc, serve(t, sojourn, store))
	t.Cleanup(func() { between.report(t) }) // also when the client has failed
	if out := run(t, folder, client, between.url, token); out != "job 1 completed\n" {
		t.Errorf("the client printed %q", out)
	}
}

func (w *watcher) report(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answers < 8 {
		t.Errorf("only %d answers were held against the document", w.answers)
	}
	for _, fault := range w.faults {
		t.Error(fault)
	}
}

// generate makes a program in a folder: the generated client, and the lines that use it.
func generate(t *testing.T, folder string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(folder, "api"), 0o700); err != nil {
		t.Fatal(err)
	}
	copied := func(from, to string, change func(string) string) {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, to), []byte(change(string(b))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	same := func(s string) string { return s }
	copied("../go.mod", "go.mod", func(s string) string {
		return regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(s, "module outside")
	})
	copied("../go.sum", "go.sum", same)
	copied("testdata/client.go", "main.go", func(s string) string { return strings.TrimPrefix(s, "//go:build ignore\n") })
	api, err := filepath.Abs(filepath.Join(root, "httpapi/server/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, "..", "go", "tool", "oapi-codegen", "-package", "api", "-generate", "types,client", "-o", filepath.Join(folder, "api", "api.go"), api)
}

// serve starts a server on a free port and gives its address.
func serve(t *testing.T, sojourn, store string) *url.URL {
	t.Helper()
	cmd := exec.Command(sojourn, "serve", "--addr", "127.0.0.1:0", "--store", store)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	at, err := url.Parse(regexp.MustCompile(`http://\S+`).FindString(line))
	if err != nil || at.Host == "" {
		t.Fatalf("the server said %q", line)
	}
	return at
}

// watcher is a proxy that holds answers against the document.
type watcher struct {
	url     string
	mu      sync.Mutex // guards the fields below
	answers int
	faults  []string
}

func watch(t *testing.T, doc *openapi3.T, to *url.URL) *watcher {
	t.Helper()
	doc.Servers = nil
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error { return w.judge(router, r) }
	h := httptest.NewServer(proxy)
	t.Cleanup(h.Close)
	w.url = h.URL
	return w
}

func (w *watcher) judge(router routers.Router, r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := router.FindRoute(r.Request)
	if err == nil {
		in := &openapi3filter.RequestValidationInput{Request: r.Request, PathParams: params, Route: route}
		answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: r.StatusCode, Header: r.Header,
			Options: &openapi3filter.Options{IncludeResponseStatus: true}}
		answer.SetBodyBytes(body)
		err = openapi3filter.ValidateResponse(r.Request.Context(), answer)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers++
	if err != nil {
		w.faults = append(w.faults, r.Request.Method+" "+r.Request.URL.Path+" answered "+r.Status+" "+string(body)+": "+err.Error())
	}
	return nil
}
