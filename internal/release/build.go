package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// versionPackage has the variables that the linker sets.
const versionPackage = "github.com/sojourn-queue/sojourn/internal/version"

// output runs a program in the repository and returns its standard output.
func (r *release) output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = r.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// build builds the command for each platform. Nothing of the machine, its folders and its settings
// gets into a binary.
func (r *release) build(platforms []string) error {
	flags := "-s -w -buildid= -X " + versionPackage + ".commit=" + r.commit
	if !r.dirty {
		flags += " -X " + versionPackage + ".released=true"
	}
	for _, p := range platforms {
		system, arch, ok := strings.Cut(p, "/")
		if !ok {
			return fmt.Errorf("%q is no platform; use SYSTEM/PROCESSOR", p)
		}
		b := binary{os: system, arch: arch, path: filepath.Join(r.work, system+"_"+arch, "sojourn")}
		if system == "windows" {
			b.path += ".exe"
		}
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", flags, "-o", b.path, "./cmd/sojourn")
		cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off")
		fmt.Println("build", p)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s: %w", p, err)
		}
		r.binaries = append(r.binaries, b)
	}
	return nil
}

// shells are those for which a release has completions, with the names of the files.
var shells = map[string]string{"bash": "sojourn.bash", "zsh": "_sojourn", "fish": "sojourn.fish", "powershell": "sojourn.ps1"}

// pages writes the manual pages and the completions, which are the same on all platforms, with a
// binary that runs here.
func (r *release) pages() error {
	command := ""
	for _, b := range r.binaries {
		if b.os == runtime.GOOS && b.arch == runtime.GOARCH {
			command = b.path
		}
	}
	if command == "" {
		return fmt.Errorf("the platforms must include %s/%s, whose binary writes the manual pages", runtime.GOOS, runtime.GOARCH)
	}
	if _, err := r.output(command, "man", filepath.Join(r.work, "man")); err != nil {
		return err
	}
	folder := filepath.Join(r.work, "completions")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for shell, name := range shells {
		script, err := r.output(command, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
