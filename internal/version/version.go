// Package version has the version number of this project. Everything else that states the number is
// compared with it by a test.
package version

import (
	"runtime/debug"
	"strings"
)

// Number is the version of this source tree, in the form of Semantic Versioning: the version being
// prepared until CHANGELOG.md has a heading for it, then that release.
const Number = "0.1.0"

// The linker sets both in a released binary (-X), because a build from a source archive has no
// repository to read them from.
var (
	commit   string // of the source
	released string // "true" in the binaries of make release
)

// Build describes how a program was built.
type Build struct {
	Version  string // Number, with the suffix "-dev" unless it is a release
	Revision string // commit of the source, "" if unknown
	Modified bool   // the source differed from the commit
}

// Current returns the build of this program.
func Current() Build {
	b := Build{Version: Number, Revision: commit}
	read, ok := debug.ReadBuildInfo()
	if !ok {
		read = &debug.BuildInfo{}
	}
	for _, s := range read.Settings {
		switch {
		case s.Key == "vcs.revision" && commit == "":
			b.Revision = s.Value
		case s.Key == "vcs.modified" && commit == "":
			b.Modified = s.Value == "true"
		}
	}
	if released != "true" && !installed(read) {
		b.Version += "-dev"
	}
	return b
}

// installed reports whether go install built this program from the tag of its version. A repository
// whose working tree differs from the tag gives the version another suffix.
func installed(b *debug.BuildInfo) bool {
	if b.Main.Path == "github.com/sojourn-queue/sojourn" && b.Main.Version == "v"+Number {
		return true
	}
	for _, m := range b.Deps {
		if m.Path == "github.com/sojourn-queue/sojourn" && m.Replace == nil && strings.TrimPrefix(m.Version, "v") == Number {
			return true
		}
	}
	return false
}
