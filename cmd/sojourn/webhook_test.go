package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// TestWebhookCommand: the command listens, stores what a known sender brings, and ends with its
// context.
func TestWebhookCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	file := filepath.Join(t.TempDir(), "sources.toml")
	text := "[[source]]\nname = 'shop'\nwebhook = { signature = 'bearer', secrets = ['SHOP'], kinds = ['charge'] }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHOP", "a secret of 16 bytes or more")
	read, errs := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out strings.Builder
	a := &cli.App{Out: &out, Err: errs, In: strings.NewReader(""), Env: os.Getenv}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, a, []string{"webhook", file, "--listen", "127.0.0.1:0", "--store", "sqlite:" + path})
		errs.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if address == "" {
		t.Fatal(line, err)
	}
	go io.Copy(io.Discard, read)
	for secret, want := range map[string]int{"a secret of 16 bytes or more": 202, "a wrong one of 16 bytes": 401} {
		r, err := http.NewRequest(http.MethodPost, "http://"+address+"/respond/charge/42", strings.NewReader("paid"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("%s, want %d", got.Status, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if code := <-ended; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if text := out.String(); !strings.Contains(text, "202 early shop\n") || !strings.Contains(text, "401 bad_signature \n") {
		t.Errorf("%q", text)
	}
	lies, err := c.Store().Inbox(t.Context(), sojourn.InboxFilter{})
	if err != nil || len(lies) != 1 || string(lies[0].Body) != "paid" {
		t.Errorf("%+v, %v", lies, err)
	}
}
