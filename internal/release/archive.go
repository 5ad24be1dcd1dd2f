package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // with slashes
	path string // where its content is
	mode os.FileMode
}

// archives writes a .tar.gz for each platform, on Windows a .zip.
func (r *release) archives() error {
	for _, b := range r.binaries {
		folder := fmt.Sprintf("sojourn_%s_%s_%s", r.version, b.os, b.arch)
		entries := []entry{{path.Join(folder, filepath.Base(b.path)), b.path, 0o755}}
		for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
			entries = append(entries, entry{path.Join(folder, name), filepath.Join(r.root, name), 0o644})
		}
		for _, sub := range []string{"man", "completions"} {
			files, err := filepath.Glob(filepath.Join(r.work, sub, "*"))
			if err != nil {
				return err
			}
			for _, f := range files {
				entries = append(entries, entry{path.Join(folder, sub, filepath.Base(f)), f, 0o644})
			}
		}
		write, name := tarGzip, folder+".tar.gz"
		if b.os == "windows" {
			write, name = zipped, folder+".zip"
		}
		if err := r.write(name, func(w io.Writer) error { return write(w, entries, r.date) }); err != nil {
			return err
		}
	}
	return nil
}

// write creates a file of the release.
func (r *release) write(name string, fill func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}

// sorted returns entries in the order of their names, which is that of an archive.
func sorted(entries []entry) []entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.name, b.name) })
}

// tarGzip writes an archive that depends only on names, modes, contents and the date.
func tarGzip(w io.Writer, entries []entry, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range sorted(entries) {
		text, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(text)), ModTime: date, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(text); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// zipped is tarGzip in the form of Windows.
func zipped(w io.Writer, entries []entry, date time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range sorted(entries) {
		text, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		h.SetMode(e.mode)
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(text); err != nil {
			return err
		}
	}
	return z.Close()
}

// chart writes the Helm chart as an archive, with the version of the release.
func (r *release) chart() error {
	from := filepath.Join(r.root, "internal", "release", "deploy", "chart")
	var entries []entry
	err := filepath.WalkDir(from, func(at string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, at)
		entries = append(entries, entry{path.Join("sojourn", filepath.ToSlash(name)), at, 0o644})
		return err
	})
	if err != nil {
		return err
	}
	return r.write("sojourn-chart-"+r.version+".tgz", func(w io.Writer) error { return tarGzip(w, entries, r.date) })
}

// container writes the folder from which the image of a container is built.
func (r *release) container() error {
	from := filepath.Join(r.root, "internal", "release", "deploy", "docker")
	folder := "sojourn_" + r.version + "_container"
	var entries []entry
	for _, name := range []string{"Dockerfile", "compose.yaml"} {
		entries = append(entries, entry{path.Join(folder, name), filepath.Join(from, name), 0o644})
	}
	for _, b := range r.binaries {
		if b.os == "linux" {
			entries = append(entries, entry{path.Join(folder, b.os+"_"+b.arch, "sojourn"), b.path, 0o755})
		}
	}
	return r.write(folder+".tar.gz", func(w io.Writer) error { return tarGzip(w, entries, r.date) })
}

// sums are the SHA-256 of the files of the release so far.
func (r *release) sums() (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(r.out, "*"))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return nil, err
		}
		found[filepath.Base(name)] = fmt.Sprintf("%x", h.Sum(nil))
	}
	return found, nil
}

// checksums writes checksums.txt, for sha256sum -c.
func (r *release) checksums() error {
	found, err := r.sums()
	if err != nil {
		return err
	}
	return r.write("checksums.txt", func(w io.Writer) error {
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if _, err := fmt.Fprintf(w, "%s  %s\n", found[name], name); err != nil {
				return err
			}
		}
		return nil
	})
}
