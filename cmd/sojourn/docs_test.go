package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

// TestReferenceIsComplete holds docs/reference/cli.md against the program: each command has a
// heading, and each flag stands in the section of its group. So do the exit codes.
func TestReferenceIsComplete(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	sections := map[string]string{} // by the first two words of a command
	for _, s := range strings.Split(text, "\n## ")[1:] {
		sections[strings.Join(strings.Fields(s)[:2], " ")] = s
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		words := strings.Fields(cmd.CommandPath())
		if len(words) == 1 || cmd.Name() == "help" {
			return
		}
		section := sections[words[0]+" "+words[1]]
		if cmd.HasSubCommands() {
			return
		}
		if !strings.Contains("## "+section, "# "+cmd.CommandPath()) {
			t.Errorf("%s has no heading", cmd.CommandPath())
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(section, "`--"+f.Name+"`") && !strings.Contains(section, "`--"+f.Name+" ") {
				t.Errorf("%s --%s is missing", cmd.CommandPath(), f.Name)
			}
		})
	}
	root := newRoot(&cli.App{Env: os.Getenv})
	walk(root)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(text, "`--"+f.Name) {
			t.Errorf("--%s is missing", f.Name)
		}
	})
	for _, line := range strings.Split(longHelp, "\n") {
		if code, _, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && !strings.Contains(text, "\n| "+code+" | ") {
			t.Errorf("exit code %s is missing", code)
		}
	}
}
