// Package versioncmd has the command "version".
package versioncmd

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/internal/version"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "version".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// build is the output of the command in JSON.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, if it was built in its repository
	Modified bool   `json:"modified,omitempty"` // the source differed from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) command() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "show the version of this program", Args: cobra.NoArgs}
	cmd.RunE = func(*cobra.Command, []string) error {
		b := current()
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

// current returns the build of this program.
func current() build {
	b := version.Current()
	return build{Version: b.Version, Revision: b.Revision, Modified: b.Modified, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}
