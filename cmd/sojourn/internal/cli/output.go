package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

// AsJSON reports whether the output is JSON.
func (a *App) AsJSON() bool { return a.Output == "json" }

// JSON writes v on one line, in the form of the HTTP API.
func (a *App) JSON(v any) error {
	b, err := jsonform.Marshal(v)
	if err == nil {
		_, err = a.Out.Write(append(b, '\n'))
	}
	return err
}

// JSONLines writes each of list on a line of its own.
func JSONLines[T any](a *App, list []T) error {
	for _, v := range list {
		if err := a.JSON(v); err != nil {
			return err
		}
	}
	return nil
}

// Values are the items of a page.
func Values[T any](items []*T) []T {
	out := make([]T, len(items))
	for i, item := range items {
		out[i] = *item
	}
	return out
}

// Printf writes a sentence for people; with -o json, nothing.
func (a *App) Printf(format string, args ...any) error {
	if a.AsJSON() {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, format, args...)
	return err
}

// Result shows one thing: as JSON, or as a sentence for people.
func (a *App) Result(v any, format string, args ...any) error {
	if a.AsJSON() {
		return a.JSON(v)
	}
	return a.Printf(format, args...)
}

// NextPage tells, on stderr, how to read on: the same command with another place to start.
func (a *App) NextPage(cmd *cobra.Command, args []string, flag, last string) {
	words := strings.Fields(cmd.CommandPath())
	for _, arg := range args {
		words = append(words, terminal.Quote(arg))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == flag {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				words = append(words, "--"+f.Name, terminal.Quote(v))
			}
			return
		}
		if f.Value.Type() == "bool" {
			words = append(words, "--"+f.Name+"="+f.Value.String())
			return
		}
		words = append(words, "--"+f.Name, terminal.Quote(f.Value.String()))
	})
	fmt.Fprintf(a.Err, "more: %s --%s %s\n", strings.Join(words, " "), flag, terminal.Clean(terminal.Quote(last)))
}

// PrintBlock writes bytes under a heading; nothing if there are none.
func (a *App) PrintBlock(name, contentType string, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	head := fmt.Sprintf("%s (%s", name, terminal.Plural(len(b), "byte"))
	if contentType != "" {
		head += ", " + terminal.Clean(contentType)
	}
	text := strings.TrimSuffix(terminal.BytesText(b), "\n")
	return a.Printf("\n%s)\n  %s\n", head, strings.ReplaceAll(terminal.Printable(text), "\n", "\n  "))
}
