// Command release builds everything that a release consists of, from the commit that is checked
// out: make release. It publishes nothing. Two builds of one commit with the same version of Go are
// identical, byte for byte, whatever the folder and the time.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// allPlatforms are those for which a release has binaries.
const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	r := release{}
	platforms := flag.String("platforms", allPlatforms, "platforms, separated by commas")
	flag.StringVar(&r.root, "root", "../..", "root of the repository")
	flag.StringVar(&r.out, "out", "../../dist/release", "folder of the results; files of an earlier release in it are removed")
	flag.BoolVar(&r.dirty, "dirty", false, "build a working tree that differs from its commit; the version gets the suffix -dev")
	only := flag.String("only", "", "write only the packages of Linux: packages")
	flag.Parse()
	if *only != "" && *only != "packages" {
		fmt.Fprintf(os.Stderr, "release: -only %s is unknown; use packages\n", *only)
		os.Exit(2)
	}
	r.packagesOnly = *only != ""
	if err := r.make(strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one release and how it is built.
type release struct {
	root, out string
	dirty     bool
	// packagesOnly leaves out everything but the packages of Linux.
	packagesOnly bool
	work         string    // temporary folder
	version      string    // such as 0.1.0 or 0.1.0-dev
	commit       string    // of the source
	date         time.Time // of the commit; every file has it
	goVersion    string
	binaries     []binary
}

// binary is the command for one platform.
type binary struct {
	os, arch string
	path     string
}

func (r *release) make(platforms []string) error {
	var err error
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if err := r.identify(); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "sojourn-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.empty(); err != nil {
		return err
	}
	steps := []func() error{func() error { return r.build(platforms) }, r.pages, r.packages}
	if !r.packagesOnly {
		steps = append(steps, r.archives, r.chart, r.container, r.sdks, r.bills, r.provenance, r.checksums)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// empty removes the files of an earlier release from the folder of the results. It refuses a folder
// with other files, because its name may be a mistake.
func (r *release) empty() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	found, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.IsDir() || !strings.HasPrefix(f.Name(), "sojourn") && f.Name() != "checksums.txt" {
			return fmt.Errorf("%s has %s, which is no file of a release; give another folder with -out", r.out, f.Name())
		}
	}
	for _, f := range found {
		if err := os.Remove(filepath.Join(r.out, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

var numberLine = regexp.MustCompile(`(?m)^const Number = "(\d+\.\d+\.\d+)"$`)

// identify finds the version, the commit and its date.
func (r *release) identify() error {
	text, err := os.ReadFile(filepath.Join(r.root, "internal", "version", "version.go"))
	if err != nil {
		return err
	}
	number := numberLine.FindSubmatch(text)
	if number == nil {
		return fmt.Errorf("internal/version/version.go has no line %s", numberLine)
	}
	r.version = string(number[1])
	if r.commit, err = r.output("git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	date, err := r.output("git", "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return err
	}
	r.date = r.date.UTC()
	if r.goVersion, err = r.output("go", "env", "GOVERSION"); err != nil {
		return err
	}
	changes, err := r.output("git", "status", "--porcelain")
	switch {
	case err != nil:
		return err
	case r.dirty:
		r.version += "-dev"
	case changes != "":
		return fmt.Errorf("the working tree differs from the commit; commit the changes or give -dirty:\n%s", changes)
	}
	return nil
}
