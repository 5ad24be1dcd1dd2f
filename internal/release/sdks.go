package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// sdks writes the packages of the SDKs: a wheel, an archive of the source for Python, and an
// archive for npm. They are built from a copy, because the tools write into their folder.
func (r *release) sdks() error {
	if err := r.python(); err != nil {
		return err
	}
	return r.npm()
}

// run runs a program in a folder with more variables, and shows its output only if it fails.
func run(folder string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// copied copies the committed files of a folder, because a build leaves others there.
func (r *release) copied(folder string) (string, error) {
	to := filepath.Join(r.work, filepath.Base(folder))
	list, err := r.output("git", "ls-files", "--", folder)
	if err != nil {
		return "", err
	}
	for _, name := range strings.Split(list, "\n") {
		relative, err := filepath.Rel(filepath.FromSlash(folder), filepath.FromSlash(name))
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(name)))
		if err != nil {
			return "", err
		}
		path := filepath.Join(to, relative)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
			return "", err
		}
		if err := os.Chtimes(path, r.date, r.date); err != nil {
			return "", err
		}
	}
	return to, nil
}

// python builds the wheel and the archive of the source with the packages python3-build,
// python3-setuptools and python3-wheel of the system.
func (r *release) python() error {
	folder, err := r.copied("sdk/python")
	if err != nil {
		return err
	}
	interpreter := "python3"
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		interpreter = "/usr/bin/python3" // that of the system's packages
	}
	made := filepath.Join(r.work, "python-dist")
	env := []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.date.Unix(), 10), "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1"}
	if err := run(folder, env, interpreter, "-m", "build", "--no-isolation", "--outdir", made); err != nil {
		return err
	}
	for _, pattern := range []string{"*.whl", "*.tar.gz"} {
		found, err := filepath.Glob(filepath.Join(made, pattern))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("python3 -m build wrote %v: %w", found, err)
		}
		fill := func(w io.Writer) error { return copyFile(w, found[0]) }
		if pattern == "*.tar.gz" {
			fill = func(w io.Writer) error { return r.repack(w, found[0]) }
		}
		if err := r.write(filepath.Base(found[0]), fill); err != nil {
			return err
		}
	}
	return nil
}

// npm builds the package for npm, whose script compiles the source. The compiler is that of the
// system, else one that npm installs.
func (r *release) npm() error {
	folder, err := r.copied("sdk/typescript")
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("tsc"); err != nil {
		if err := run(folder, nil, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"); err != nil {
			return err
		}
	}
	if err := run(folder, nil, "npm", "pack", "--pack-destination", r.work); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(r.work, "*.tgz"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("npm pack wrote %v: %w", found, err)
	}
	return r.write(filepath.Base(found[0]), func(w io.Writer) error { return r.repack(w, found[0]) })
}

func copyFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// repack writes an archive again with the times, owners and order of tarGzip: those of the tools
// depend on the machine.
func (r *release) repack(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(r.work, "repack-")
	if err != nil {
		return err
	}
	var entries []entry
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return tarGzip(w, entries, r.date)
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue // folders are made by the names of files
		}
		path := filepath.Join(folder, strconv.Itoa(len(entries)))
		text, err := io.ReadAll(t)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			return err
		}
		entries = append(entries, entry{h.Name, path, 0o644})
	}
}
