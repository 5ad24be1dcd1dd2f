package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

// "sojourn docs" prints an address at which the pages are, and ends when it is interrupted. With
// --write it writes them and ends.
func TestDocsCommand(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, &cli.App{Out: write, Err: io.Discard, In: strings.NewReader(""), Env: func(string) string { return "" }}, []string{"docs"})
		_ = write.Close()
	}()
	line := make([]byte, 200)
	n, _ := read.Read(line)
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(string(line[:n]))
	got, err := http.Get(url + "guides/responses.html")
	if err != nil {
		t.Fatalf("%q: %v", line[:n], err)
	}
	defer got.Body.Close()
	if body, _ := io.ReadAll(got.Body); got.StatusCode != 200 || !strings.Contains(string(body), "<title>Responses · Sojourn</title>") {
		t.Errorf("%d %.300s", got.StatusCode, body)
	}
	stop()
	if code := <-ended; code != cli.ExitOK {
		t.Errorf("it ended with %d", code)
	}
	dir := filepath.Join(t.TempDir(), "site")
	var out strings.Builder
	code := run(t.Context(), &cli.App{Out: &out, Err: io.Discard, In: strings.NewReader(""), Env: func(string) string { return "" }}, []string{"docs", "--write", dir})
	if code != cli.ExitOK || out.String() != dir+": open index.html\n" {
		t.Errorf("%d %q", code, out.String())
	}
	if text, err := os.ReadFile(filepath.Join(dir, "llms.txt")); err != nil || !strings.HasPrefix(string(text), "# Sojourn\n") {
		t.Errorf("%v %.100s", err, text)
	}
}
