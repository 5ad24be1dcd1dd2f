package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		{0o600, 0o600, exitOK, "", "warning"},
		{0o644, 0o640, exitOK, "", "warning"},
		{0o666, 0o600, exitOK, "config.toml can be written by other users", "token"},
		{0o664, 0o600, exitOK, "config.toml can be written by other users", "token"},
		{0o600, 0o644, exitOK, "token holds a secret, and other users can read it", "config.toml"},
		{0o600, 0o622, exitUsage, "token holds a secret, and other users can write it", "warning"},
	} {
		config, token := write("config.toml", store, c.config), write("token", "sj_x", c.token)
		var out, errs bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &errs, env: func(name string) string {
			return map[string]string{"SOJOURN_CONFIG": config, "SOJOURN_TOKEN_FILE": token}[name]
		}}
		code := run(context.Background(), a, []string{"enqueue", "mail"})
		if code != c.code || !strings.Contains(errs.String(), c.want) || strings.Contains(errs.String(), c.not) || strings.Count(errs.String(), "\n") > 2 {
			t.Errorf("config %#o, token %#o: exit code %d, %s", c.config, c.token, code, &errs)
		}
	}
	secrets := write("secrets", "bank.example=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 0o666)
	a := &app{err: &bytes.Buffer{}, env: func(name string) string { return map[string]string{"SOJOURN_HTTP_SECRETS_FILE": secrets}[name] }}
	if _, err := a.caller(callFlags{on: true}); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("secrets that everybody can write: %v", err)
	}
}
