package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageFile  = regexp.MustCompile("(?s)`([\\w.]+)`[^\n]*\n\n```(?:python|js|ts|go)\n(.*?)```")
	pageBlock = regexp.MustCompile("(?s)```(sh|text)\n(.*?)```")
)

// TestQuickstarts runs the pages for other languages as they stand: their files are written, their commands run, and what they print is compared.
func TestQuickstarts(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, folder string) (env []string){
		"python": func(t *testing.T, _ string) []string {
			interpreter(t, "python3")
			return []string{"PYTHONPATH=" + absolute(t, "../../sdk/python"), "PYTHONDONTWRITEBYTECODE=1"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			interpreter(t, "bash")
			freePort(t)
			folder := t.TempDir()
			runPage(t, "../../docs/guides/"+name+".md", folder, prepare(t, folder))
		})
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// freePort skips a test of a page where something else has the port that the pages name.
func freePort(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:7575")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("something listens on port 7575, which the page names: ", err)
	} else if err == nil {
		l.Close()
	}
}

// runPage writes the files of a page into a folder, runs its commands there in one shell, and wants each of its texts in what they print.
func runPage(t *testing.T, path, folder string, env []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, file := range pageFile.FindAllStringSubmatch(page, -1) {
		if err := os.WriteFile(filepath.Join(folder, file[1]), []byte(file[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, texts := "set -e -m -o pipefail\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n", []string{}
	for _, block := range pageBlock.FindAllStringSubmatch(page, -1) {
		if block[1] == "text" {
			texts = append(texts, block[2])
			continue
		}
		script += block[2]
	}
	if len(texts) == 0 {
		t.Fatal("the page shows nothing that its commands print")
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = folder
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Dir(sojournCommand(t))+":"+os.Getenv("PATH"), "no_proxy=127.0.0.1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			t.Errorf("the page promises\n%s\nand its commands print\n%s", text, out)
		}
	}
}
