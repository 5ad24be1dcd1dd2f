package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// fake is a release whose binary is a small file, so that a test takes no time.
func fake(t *testing.T, date time.Time) *release {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &release{root: root, out: t.TempDir(), work: t.TempDir(), version: "0.1.0", commit: strings.Repeat("a", 40), date: date, goVersion: "go1.26"}
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(r.work, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, p := range [][2]string{{"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}} {
		r.binaries = append(r.binaries, binary{os: p[0], arch: p[1], path: file(p[0]+p[1]+"/sojourn", "binary of "+p[0]+p[1])})
	}
	file("man/sojourn.1", ".TH sojourn 1\n")
	for _, name := range shells {
		file("completions/"+name, "completion\n")
	}
	return r
}

// steps packs a fake release and returns the contents of its files.
func steps(t *testing.T, r *release) map[string][]byte {
	t.Helper()
	for _, step := range []func() error{r.archives, r.packages, r.chart, r.container, r.provenance, r.checksums} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(r.out, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(name)] = text
	}
	return found
}

// TestPackingIsReproducible packs the same binaries in two folders whose files have other times.
func TestPackingIsReproducible(t *testing.T) {
	date := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	a := fake(t, date)
	first := steps(t, a)
	b := fake(t, date)
	if err := filepath.WalkDir(b.work, func(at string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(at, date.Add(time.Hour), date.Add(time.Hour)))
	}); err != nil {
		t.Fatal(err)
	}
	second := steps(t, b)
	if len(first) != 11 || len(first) != len(second) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name, text := range first {
		if !bytes.Equal(text, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
	other := steps(t, fake(t, date.Add(time.Hour)))
	for name, text := range first {
		if strings.HasSuffix(name, ".deb") && bytes.Equal(text, other[name]) {
			t.Errorf("%s does not depend on the date, so this test shows nothing", name)
		}
	}
}

func TestOtherFilesAreKept(t *testing.T) {
	r := &release{out: t.TempDir()}
	put := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.out, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int {
		found, err := os.ReadDir(r.out)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	put("sojourn_0.1.0_linux_amd64.deb")
	put("checksums.txt")
	if err := r.empty(); err != nil || left() != 0 {
		t.Errorf("%d files of an earlier release are left: %v", left(), err)
	}
	put("sojourn_0.1.0_linux_amd64.deb")
	put("letter.txt")
	if err := r.empty(); err == nil || left() != 2 {
		t.Errorf("a folder with other files is emptied: %v, %d left", err, left())
	}
}

func TestChecksums(t *testing.T) {
	found := steps(t, fake(t, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)))
	for name, text := range found {
		line := fmt.Sprintf("%x  %s\n", sha256.Sum256(text), name)
		if name != "checksums.txt" && !strings.Contains(string(found["checksums.txt"]), line) {
			t.Errorf("checksums.txt has no line %q", line)
		}
		isStatement := name == "checksums.txt" || strings.HasSuffix(name, ".provenance.json")
		if !isStatement && !strings.Contains(string(found["sojourn_0.1.0.provenance.json"]), fmt.Sprintf("%x", sha256.Sum256(text))) {
			t.Errorf("the provenance statement does not name %s", name)
		}
	}
}

func TestArchive(t *testing.T) {
	found := steps(t, fake(t, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)))
	z, err := gzip.NewReader(bytes.NewReader(found["sojourn_0.1.0_linux_arm64.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
	}
	folder := "sojourn_0.1.0_linux_arm64/"
	for name, mode := range map[string]int64{"sojourn": 0o755, "LICENSE": 0o644, "man/sojourn.1": 0o644, "completions/_sojourn": 0o644} {
		if modes[folder+name] != mode {
			t.Errorf("%s has the mode %o, want %o", name, modes[folder+name], mode)
		}
	}
}

func TestBill(t *testing.T) {
	r := fake(t, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{{Path: "example.com/a", Version: "v1.2.3", Sum: "h1:x"}}}
	bill := r.bill(r.binaries[0], info)
	if n := len(*bill.Components); n != 2 || (*bill.Components)[1].PackageURL != "pkg:golang/example.com/a@v1.2.3" {
		t.Errorf("%d components: %+v", n, *bill.Components)
	}
	if bill.SerialNumber != r.bill(r.binaries[0], info).SerialNumber || bill.SerialNumber == r.bill(r.binaries[1], info).SerialNumber {
		t.Error("the serial number must depend on the commit and the platform alone")
	}
}

// TestDebPackage reads a package with dpkg-deb.
func TestDebPackage(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip(err)
	}
	r := fake(t, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	if err := r.packages(); err != nil {
		t.Fatal(err)
	}
	deb := filepath.Join(r.out, "sojourn_0.1.0_linux_amd64.deb")
	dpkg := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("dpkg-deb", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg-deb %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if got := dpkg("-f", deb, "Package", "Version", "Architecture"); got != "Package: sojourn\nVersion: 0.1.0-1\nArchitecture: amd64\n" {
		t.Errorf("%q", got)
	}
	if got := dpkg("-I", deb, "conffiles"); got != "/etc/sojourn/sojourn.toml\n" {
		t.Errorf("files of settings that an upgrade keeps: %q", got)
	}
	contents := dpkg("-c", deb)
	for _, name := range []string{"/usr/bin/sojourn", "/usr/lib/systemd/system/sojourn.service", "/usr/share/man/man1/sojourn.1.gz", "/usr/share/bash-completion/completions/sojourn"} {
		if !strings.Contains(contents, "."+name+"\n") {
			t.Errorf("the package has no %s:\n%s", name, contents)
		}
	}
}

// TestUnit has systemd read the unit. It complains about a program that is not installed here.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile("deploy/linux/sojourn.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sojourn.service")
	verify := func(unit string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
		if err != nil {
			return fmt.Sprintf("%v\n%s", err, out)
		}
		return string(out)
	}
	unit := strings.ReplaceAll(string(text), "/usr/bin/sojourn", "/bin/true")
	if got := verify(unit); strings.Contains(got, "sojourn.service") {
		t.Error(got)
	}
	if got := verify(unit + "\n[Service]\nRestart=perhaps\n"); !strings.Contains(got, "sojourn.service") {
		t.Errorf("a wrong unit is accepted, so this test shows nothing: %q", got)
	}
}

// TestScriptsAreShell has sh read the scripts of the packages.
func TestScriptsAreShell(t *testing.T) {
	scripts, err := filepath.Glob("deploy/linux/*.sh")
	if err != nil || len(scripts) != 3 {
		t.Fatalf("%v: %v", scripts, err)
	}
	for _, s := range scripts {
		if out, err := exec.Command("sh", "-n", s).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", s, err, out)
		}
	}
}
