// Package versioncmd has the command "version", and the version of this program.
package versioncmd

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "version".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// Build says what this program was made of.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, if it was built in its repository
	Modified bool   `json:"modified,omitempty"` // the source differed from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) command() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "show the version of this program", Args: cobra.NoArgs}
	cmd.RunE = func(*cobra.Command, []string) error {
		b := Current()
		if a.AsJSON() {
			return a.JSON(b)
		}
		revision := ""
		if b.Revision != "" {
			revision = " " + b.Revision[:min(12, len(b.Revision))]
		}
		if b.Modified {
			revision += " (modified)"
		}
		return a.Printf("sojourn %s%s %s %s\n", b.Version, revision, b.Go, b.Platform)
	}
	return cmd
}

// Current returns the build of this program.
func Current() Build {
	b := Build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	read, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := read.Main.Version; v != "" {
		b.Version = v
	}
	for _, s := range read.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
