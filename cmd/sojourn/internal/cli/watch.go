package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// Times of --watch.
const (
	watchEvery = 2 * time.Second
	watchLeast = 100 * time.Millisecond
	watchMost  = time.Hour
)

// ValidEvery checks the interval of --every.
func ValidEvery(every time.Duration) error {
	if every < watchLeast || every > watchMost {
		return sojourn.Invalid("every", "%v is out of range: %v to %v", every, watchLeast, watchMost)
	}
	return nil
}

// Watchable lets a command that lists things list them again and again.
func (a *App) Watchable(cmd *cobra.Command) *cobra.Command {
	watch, every := false, watchEvery
	cmd.Flags().BoolVar(&watch, "watch", false, "repeat the list until interrupted; on a terminal it is redrawn, elsewhere only new and changed lines are printed")
	cmd.Flags().DurationVar(&every, "every", watchEvery, "with --watch: interval, 100ms to 1h")
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !watch {
			return once(cmd, args)
		}
		if err := ValidEvery(every); err != nil {
			return err
		}
		return a.watch(cmd.Context(), every, func() error { return once(cmd, args) })
	}
	return cmd
}

// watch calls list until ctx ends, with one open store. The first failure ends it; later ones are
// said, and it goes on: a store that is away comes back.
func (a *App) watch(ctx context.Context, every time.Duration, list func() error) error {
	a.keep = &kept{}
	defer func() { a.keep.close(); a.keep = nil }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	show := a.appendNew()
	if terminal.IsTerminal(a.Out) {
		show = a.Redraw
	}
	for first := true; ; first = false {
		frame, err := a.frame(list)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintln(a.Err, "sojourn: "+terminal.Printable(strings.TrimPrefix(err.Error(), "sojourn: ")))
		default:
			if err := show(frame); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// frame is what list prints, without the hint how to read on, which would be repeated.
func (a *App) frame(list func() error) (string, error) {
	var text bytes.Buffer
	out, errs := a.Out, a.Err
	defer func() { a.Out, a.Err = out, errs }()
	a.Out, a.Err = &text, io.Discard
	err := list()
	return text.String(), err
}

// Redraw replaces the previous frame, from the top of the screen. Each line is erased before it is
// written: erasing it after a carriage return or after its last column would delete the new text.
func (a *App) Redraw(frame string) error {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for line := range strings.Lines(frame) {
		text, ended := strings.CutSuffix(line, "\n")
		b.WriteString("\x1b[2K" + text)
		if ended {
			b.WriteString("\r\n")
		}
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(a.Out, b.String())
	return err
}

// appendNew writes the lines that the frame before did not have.
func (a *App) appendNew() func(frame string) error {
	var before []string
	return func(frame string) error {
		now := slices.Collect(strings.Lines(frame))
		for _, line := range now {
			if slices.Contains(before, line) {
				continue
			}
			if _, err := io.WriteString(a.Out, line); err != nil {
				return err
			}
		}
		before = now
		return nil
	}
}

// kept is a store that stays open between the frames of a watch.
type kept struct{ c *sojourn.Client }

func (k *kept) close() {
	if k.c != nil {
		_ = k.c.Close()
	}
}
