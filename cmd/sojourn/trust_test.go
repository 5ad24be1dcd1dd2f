package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

// TestFilesOfOthers: files with settings or secrets that other users can write or read do not go
// unnoticed.
func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	store := "store = \"sqlite:" + filepath.Join(dir, "jobs.db") + "\"\n"
	for _, c := range []struct {
		config, token os.FileMode
		code          int
		want          string
		not           string
	}{
		{0o600, 0o600, cli.ExitOK, "", "warning"},
		{0o644, 0o640, cli.ExitOK, "", "warning"},
		{0o666, 0o600, cli.ExitOK, "config.toml can be written by other users", "token"},
		{0o664, 0o600, cli.ExitOK, "config.toml can be written by other users", "token"},
		{0o600, 0o644, cli.ExitOK, "token holds a secret, and other users can read it", "config.toml"},
		{0o600, 0o622, cli.ExitUsage, "token holds a secret, and other users can write it", "warning"},
	} {
		config, token := write("config.toml", store, c.config), write("token", "sj_x", c.token)
		var out, errs bytes.Buffer
		a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(name string) string {
			return map[string]string{"SOJOURN_CONFIG": config, "SOJOURN_TOKEN_FILE": token}[name]
		}}
		code := run(context.Background(), a, []string{"enqueue", "mail"})
		if code != c.code || !strings.Contains(errs.String(), c.want) || strings.Contains(errs.String(), c.not) || strings.Count(errs.String(), "\n") > 2 {
			t.Errorf("config %#o, token %#o: exit code %d, %s", c.config, c.token, code, &errs)
		}
	}
	secrets := write("secrets", "bank.example=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 0o666)
	var errs bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: &errs, Err: &errs, Env: func(name string) string {
		return map[string]string{"SOJOURN_HTTP_SECRETS_FILE": secrets}[name]
	}}
	if code := run(context.Background(), a, []string{"work", "--http", "--once"}); code != cli.ExitUsage || !strings.Contains(errs.String(), "chmod 600") {
		t.Errorf("secrets that everybody can write: exit code %d, %s", code, &errs)
	}
}
