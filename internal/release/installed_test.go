package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dist is the folder of a release, from SOJOURN_DIST: make release-test. Without it the tests of
// installed packages are skipped.
func dist(t *testing.T, pattern string) string {
	t.Helper()
	folder := os.Getenv("SOJOURN_DIST")
	if folder == "" {
		t.Skip("SOJOURN_DIST names no release; run make release-test")
	}
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has %v for %s: %v", folder, found, pattern, err)
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// must runs a program in a folder, with no variables but PATH, HOME and env.
func must(t *testing.T, folder string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = folder, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// unpacked returns the command from the archive of a release.
func unpacked(t *testing.T) string {
	t.Helper()
	archive := dist(t, "sojourn_*_linux_amd64.tar.gz")
	folder := t.TempDir()
	must(t, folder, nil, "tar", "-xzf", archive, "--strip-components=1")
	return filepath.Join(folder, "sojourn")
}

// serve starts the command on a new store and returns its URL and a token for everything.
func serve(t *testing.T, command string) (url, token string) {
	t.Helper()
	folder := t.TempDir()
	store := "sqlite:" + filepath.Join(folder, "jobs.db")
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(must(t, folder, nil, command, "token", "create", "--store", store, "--name", "a", "--verb", "admin", "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(command, "serve", "--store", store, "--addr", addr)
	cmd.Env = []string{"HOME=" + folder}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		reply, err := http.Get("http://" + addr + "/readyz")
		if err == nil {
			reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return "http://" + addr, made.Token
			}
		}
		if time.Now().After(end) {
			t.Fatal("the server is not ready", err)
		}
	}
}

// scenarioPassed returns the scenario that each client runs, and what a driver prints that passed.
func scenarioPassed(t *testing.T) (file, want string) {
	t.Helper()
	file, err := filepath.Abs("../../sdk/scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Steps []json.RawMessage }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return file, fmt.Sprintf("passed %d", len(all.Steps))
}

func TestInstalledArchive(t *testing.T) {
	command := unpacked(t)
	got := must(t, t.TempDir(), nil, command, "version")
	t.Logf("%s", got)
	if !strings.HasPrefix(got, "sojourn 0.1.0") {
		t.Errorf("the version is %q", got)
	}
	url, token := serve(t, command)
	must(t, t.TempDir(), nil, command, "health", url)
	r, err := http.NewRequest(http.MethodPost, url+"/v1/jobs", strings.NewReader(`{"kind": "mail", "args": {"to": "a@example.com"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if text, _ := io.ReadAll(reply.Body); reply.StatusCode/100 != 2 {
		t.Errorf("%s: %s", reply.Status, text)
	}
}

// TestInstalledPython installs the wheel, and then the archive of the source, in an empty
// environment without a network, and runs the scenario with it.
func TestInstalledPython(t *testing.T) {
	for _, pattern := range []string{"sojourn_queue-*.whl", "sojourn?queue-*.tar.gz"} {
		t.Run(pattern, func(t *testing.T) {
			archive := dist(t, pattern)
			url, token := serve(t, unpacked(t))
			folder := t.TempDir()
			args := []string{"-m", "venv", "env"}
			install := []string{"-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"}
			if strings.HasSuffix(pattern, ".gz") { // setuptools of the system builds it
				args, install = []string{"-m", "venv", "--system-site-packages", "env"}, append(install, "--no-build-isolation")
			}
			must(t, folder, nil, "/usr/bin/python3", args...)
			python := filepath.Join(folder, "env", "bin", "python")
			must(t, folder, nil, python, append(install, archive)...)
			driver, err := os.ReadFile("../../sdk/python/tests/scenario.py")
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(folder, "a", "b", "scenario.py") // it looks for a clone two folders up
			if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(program, driver, 0o600); err != nil {
				t.Fatal(err)
			}
			where := must(t, folder, nil, python, "-c", "import sojourn; print(sojourn.__file__, sojourn.__version__)")
			if !strings.HasPrefix(where, filepath.Join(folder, "env")) || !strings.HasSuffix(where, " 0.1.0\n") {
				t.Errorf("imported is %s", where)
			}
			file, want := scenarioPassed(t)
			if got := must(t, folder, []string{"SOJOURN_TOKEN=" + token}, python, program, file, url); !strings.Contains(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// TestInstalledNpm installs the package for npm in an empty folder and runs the scenario with it.
func TestInstalledNpm(t *testing.T) {
	archive := dist(t, "sojourn-queue-sojourn-*.tgz")
	url, token := serve(t, unpacked(t))
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"private": true, "type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, folder, nil, "npm", "install", "--offline", "--no-audit", "--no-fund", archive)
	driver, err := os.ReadFile("../../sdk/typescript/test/scenario.js")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(driver), `"../dist/index.js"`, `"@sojourn-queue/sojourn"`)
	text = strings.ReplaceAll(text, `"../dist/`, `"./node_modules/@sojourn-queue/sojourn/dist/`)
	program := filepath.Join(folder, "scenario.js")
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := must(t, folder, nil, "node", "--input-type=module", "-e", `import { version } from "@sojourn-queue/sojourn"; console.log(version)`); got != "0.1.0\n" {
		t.Errorf("the version is %q", got)
	}
	file, want := scenarioPassed(t)
	if got := must(t, folder, []string{"SOJOURN_TOKEN=" + token}, "node", program, file, url); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}
