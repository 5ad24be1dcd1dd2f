package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/internal/brokertest"
)

// page is what a command prints, read while it runs.
type page struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// TestSourceRun runs the sources of a file beside a store: an answer, one that cannot be read, one
// that is not meant, and an orderly end.
func TestSourceRun(t *testing.T) {
	server := brokertest.StartNATS(t)
	conn, err := nats.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLIES", Subjects: []string{"replies"}})
	}
	for _, body := range []string{`{"order":"order-1"}`, `{`, `{"skip":true}`} {
		if err == nil {
			_, err = js.Publish(t.Context(), "replies", []byte(body))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, store := filepath.Join(dir, "sources.toml"), "sqlite:"+filepath.Join(dir, "jobs.db")
	text := "[[source]]\nname = 'bank'\nkind = '\"charge\"'\nkey = 'body.order'\nwhen = '!has(body.skip)'\nnats = { url_env = 'BROKER', stream = 'REPLIES' }\n" +
		"[[source]]\nname = 'shop'\nwebhook = { signature = 'bearer', secrets = ['SHOP'], kinds = ['charge'] }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROKER", server.URL)
	t.Setenv("SHOP", "a secret of 16 bytes or more")
	out, logs := &page{}, &page{}
	sojourn := func(ctx context.Context, args ...string) int {
		return run(ctx, &cli.App{In: strings.NewReader(""), Out: out, Err: logs, Env: func(string) string { return "" }}, append(args, "--store", store))
	}
	if code := sojourn(t.Context(), "enqueue", "charge", "--key", "order-1"); code != 0 {
		t.Fatalf("exit code %d: %s", code, logs)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int)
	go func() { ended <- sojourn(ctx, "source", "run", file, "-v", "--listen", "127.0.0.1:0") }()
	for end := time.Now().Add(time.Minute); !strings.Contains(out.String(), "passed_over"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not all was handled: %s\n%s", out, logs)
		}
	}
	answer, err := http.NewRequest(http.MethodPost, "http://"+regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(logs.String())+"/respond/charge/order-2", strings.NewReader("paid"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Header.Set("Authorization", "Bearer a secret of 16 bytes or more")
	got, err := http.DefaultClient.Do(answer)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != http.StatusAccepted {
		t.Errorf("%s, want 202", got.Status)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d: %s", code, logs)
	}
	for _, want := range []string{"/1 early charge/order-1\n", "/2 parked, undecodable: the body is not JSON: unexpected EOF\n", "/3 passed_over /\n", "202 early shop\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	if code := sojourn(t.Context(), "inbox", "ls", "-o", "json"); code != 0 || strings.Count(out.String(), `"source":"bank"`) != 2 {
		t.Error(fmt.Sprint(code, out))
	}
}
