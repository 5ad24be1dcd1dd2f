package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

var (
	// A paragraph that names a file, before any other code, and a block with its text.
	pageFile  = regexp.MustCompile("(?m)^[^\n`]*`([\\w./]+\\.\\w+)`[^\n]*(?:\n[^\n]+)*\n\n```(?:python|js|go)\n((?s:.*?))```")
	pageBlock = regexp.MustCompile("(?s)```(sh|text)\n(.*?)```")
)

// TestQuickstarts runs the quickstart pages unchanged: it writes their files, runs their commands
// and compares the output.
func TestQuickstarts(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, folder string) (env []string){
		"python": func(t *testing.T, _ string) []string {
			interpreter(t, "python3")
			return []string{"PYTHONPATH=" + absolute(t, "../../sdk/python"), "PYTHONDONTWRITEBYTECODE=1"}
		},
		"typescript": func(t *testing.T, folder string) []string {
			interpreter(t, "node")
			installTypeScript(t, folder)
			return nil
		},
		"go": func(t *testing.T, folder string) []string {
			interpreter(t, "curl")
			inThisModule(t, folder)
			return nil
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

// inThisModule creates the module shop in folder. It uses this tree and the same requirements.
func inThisModule(t *testing.T, folder string) {
	t.Helper()
	const here = "github.com/sojourn-queue/sojourn"
	mod, err := os.ReadFile("../../go.mod")
	sum, errSum := os.ReadFile("../../go.sum")
	if err != nil || errSum != nil {
		t.Fatal(err, errSum)
	}
	text := strings.Replace(string(mod), "module "+here, "module shop", 1) + "\nrequire " + here + " v0.0.0\n\nreplace " + here + " => " + absolute(t, "../..") + "\n"
	for name, b := range map[string][]byte{"go.mod": []byte(text), "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// installTypeScript does what npm install of a clone's folder does.
func installTypeScript(t *testing.T, folder string) {
	t.Helper()
	scope := filepath.Join(folder, "node_modules", "@sojourn-queue")
	if err := os.MkdirAll(scope, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(builtTypeScript(t), filepath.Join(scope, "sojourn")); err != nil {
		t.Fatal(err)
	}
}

// TestTypeScriptIsBuilt checks that the built SDK has the files that its package.json names, and
// checks the page's programs against its types.
func TestTypeScriptIsBuilt(t *testing.T) {
	t.Parallel()
	built, folder := builtTypeScript(t), t.TempDir()
	b, err := os.ReadFile(filepath.Join(built, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var pack struct {
		Main, Types string
		Exports     map[string]map[string]string
		Files       []string
		Scripts     map[string]string
	}
	if err := json.Unmarshal(b, &pack); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pack.Main, pack.Types, pack.Exports["."]["types"], pack.Exports["."]["default"]} {
		if _, err := os.Stat(filepath.Join(built, name)); name == "" || err != nil {
			t.Errorf("package.json names %q: %v", name, err)
		}
	}
	if !slices.Contains(pack.Files, "dist") || pack.Scripts["prepare"] != "tsc" {
		t.Errorf("npm packs %v after %q: dist is not packed, or not built before", pack.Files, pack.Scripts["prepare"])
	}
	installTypeScript(t, folder)
	page := writeFiles(t, "../../docs/guides/typescript.md", folder)
	args := []string{"--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "ES2022", "--module", "Node16", "--moduleResolution", "Node16"}
	for _, f := range page {
		args = append(args, filepath.Join(folder, f[1]))
	}
	cmd := exec.Command(interpreter(t, "tsc"), args...)
	cmd.Dir = folder
	if log, err := proctest.CombinedOutput(cmd); err != nil || len(page) == 0 {
		t.Errorf("%v\n%s", err, log)
	}
}

// writeFiles writes the files of a page into a folder.
func writeFiles(t *testing.T, path, folder string) [][]string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := pageFile.FindAllStringSubmatch(string(page), -1)
	for _, file := range files {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(file[1])), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file[1]), []byte(file[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
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

// runPage writes the files of a page into folder and runs its commands there in one shell. The
// output must contain each text block of the page.
func runPage(t *testing.T, path, folder string, env []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	writeFiles(t, path, folder)
	script, texts := "", []string{}
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
	cmd := proctest.Script(t, script, "-m")
	cmd.Dir = folder
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Dir(sojournCommand(t))+":"+os.Getenv("PATH"), "no_proxy=127.0.0.1"), env...)
	out, err := proctest.CombinedOutput(cmd)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			t.Errorf("the page promises\n%s\nand its commands print\n%s", text, out)
		}
	}
}
