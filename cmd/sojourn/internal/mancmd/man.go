// Package mancmd has the hidden command "man", which writes the manual pages of a release.
package mancmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/sojourn-queue/sojourn/internal/version"
)

// Command makes the command "man". SOURCE_DATE_EPOCH is the date of the pages.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "man DIR", Short: "write a manual page for each command into a folder", Args: cobra.ExactArgs(1), Hidden: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return err
		}
		root := cmd.Root()
		root.DisableAutoGenTag = true
		header := &doc.GenManHeader{Section: "1", Source: "sojourn " + version.Number, Manual: "Sojourn"}
		if err := doc.GenManTree(root, header, args[0]); err != nil {
			return fmt.Errorf("write the manual pages: %w", err)
		}
		return nil
	}
	return cmd
}
