package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSDKPackages builds the packages of the SDKs twice.
func TestSDKPackages(t *testing.T) {
	for _, name := range []string{"/usr/bin/python3", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	if err := exec.Command("/usr/bin/python3", "-c", "import build, wheel").Run(); err != nil && os.Getenv("CI") != "true" {
		t.Skip("install the packages python3-build and python3-wheel")
	}
	date := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var made [2]map[string][]byte
	for i := range made {
		r := fake(t, date)
		if err := r.sdks(); err != nil {
			t.Fatal(err)
		}
		made[i] = map[string][]byte{}
		files, _ := filepath.Glob(filepath.Join(r.out, "*"))
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			made[i][filepath.Base(f)] = text
		}
	}
	for name, text := range made[0] {
		if !bytes.Equal(text, made[1][name]) {
			t.Errorf("%s differs between two builds", name)
		}
	}
	want := map[string][]string{
		".whl":    {"sojourn/py.typed", "sojourn/worker.py"},
		".tar.gz": {"/sojourn/py.typed", "/pyproject.toml"},
		".tgz":    {"package/dist/index.js", "package/dist/index.d.ts", "package/package.json"},
	}
	for name, text := range made[0] {
		for suffix, files := range want {
			if !strings.HasSuffix(name, suffix) {
				continue
			}
			delete(want, suffix)
			has := names(t, name, text)
			for _, file := range files {
				if !slices.ContainsFunc(has, func(s string) bool { return strings.HasSuffix(s, file) }) {
					t.Errorf("%s has no %s: %v", name, file, has)
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no package for %v", want)
	}
}

// names lists the files of an archive.
func names(t *testing.T, name string, text []byte) (found []string) {
	t.Helper()
	if strings.HasSuffix(name, ".whl") {
		z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			found = append(found, f.Name)
		}
		return found
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, h.Name)
	}
}
