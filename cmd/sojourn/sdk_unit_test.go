package main

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// TestSDKUnits runs a program of each language that prints "ok NAME" or "FAIL NAME ..." for each
// case that is neither in the scenario nor in the table of faults: coroutines as handlers,
// exceptions and thrown values whose own methods fail, values that JSON does not have, lone
// surrogates, SIGTERM during a claim that hangs, and the heartbeat in a process of its own.
func TestSDKUnits(t *testing.T) {
	for _, language := range sdkLanguages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			command := sdkProgram(t, language, "unit")
			url, token := serveScenario(t)
			ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, command[0], command[1], url)
			cmd.Env = append(os.Environ(), "SOJOURN_TOKEN="+token, "PYTHONDONTWRITEBYTECODE=1")
			out, err := proctest.CombinedOutput(cmd)
			if err != nil || strings.Count(string(out), "ok ") < 6 || strings.Contains(string(out), "FAIL ") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestProxyVariables: HTTP_PROXY and HTTPS_PROXY lead the clients in Python and TypeScript to a
// server whose name only the proxy knows, and NO_PROXY leads past it.
func TestProxyVariables(t *testing.T) {
	server, token := serveScenario(t)
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(secure.Close)
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic dTpw" { // u:p
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		through.Add(1)
		if r.Method == http.MethodConnect {
			tunnel(w, r, secure.Listener.Addr().String())
			return
		}
		r.Header.Del("Proxy-Authorization")
		httputil.NewSingleHostReverseProxy(target).ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	address := strings.Replace(proxy.URL, "http://", "http://u:p@", 1)
	for _, language := range sdkLanguages {
		for _, c := range []struct {
			name, url string
			env       map[string]string
			works     bool
		}{
			{"http", "http://example.com", map[string]string{"HTTP_PROXY": address}, true},
			{"https", "https://example.com", map[string]string{"https_proxy": address}, true},
			{"no proxy", "http://sojourn.invalid", map[string]string{"HTTP_PROXY": address, "NO_PROXY": ".invalid"}, false},
			{"local", server, map[string]string{"HTTP_PROXY": "http://127.0.0.1:1"}, true},
		} {
			t.Run(language+"/"+c.name, func(t *testing.T) {
				before := through.Load()
				command := sdkProgram(t, language, "unit")
				cmd := exec.CommandContext(t.Context(), command[0], command[1], c.url, "proxied")
				cmd.Env = append(os.Environ(), "SOJOURN_TOKEN="+token, "PYTHONDONTWRITEBYTECODE=1", "SSL_CERT_FILE="+certificate, "NODE_EXTRA_CA_CERTS="+certificate)
				for _, name := range []string{"NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY"} {
					cmd.Env = append(cmd.Env, name+"="+c.env[name], strings.ToLower(name)+"="+c.env[strings.ToLower(name)])
				}
				out, err := proctest.CombinedOutput(cmd)
				used := through.Load() > before
				if (err == nil && strings.Contains(string(out), "proxied ready")) != c.works || used != (c.works && c.name != "local") {
					t.Errorf("%v, through the proxy: %v\n%s", err, used, out)
				}
			})
		}
	}
}

// tunnel connects a caller with an address.
func tunnel(w http.ResponseWriter, r *http.Request, address string) {
	to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", address)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer to.Close()
	w.WriteHeader(http.StatusOK)
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = io.Copy(to, buffered)
		_ = to.Close()
	})
	_, _ = io.Copy(from, to)
	_ = from.Close()
	group.Wait()
}
