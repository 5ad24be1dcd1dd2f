// Package topcmd has the command "top", which shows queues and workers on a terminal.
package topcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/queuecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/workers"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "top".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// Times of top.
const (
	topEvery  = time.Second
	topResize = 200 * time.Millisecond // how often the size of the terminal is looked at
)

const topHelp = `Shows queues and workers on a terminal, refreshed every second, until q or Ctrl-C. RATE is the number of jobs per second that ended since the last refresh,
OLDEST the age of the oldest ready job. The queues with the oldest ready jobs come first. A refresh reads the
maintained numbers of jobs, not the jobs.`

func (a *app) command() *cobra.Command {
	var once bool
	every := topEvery
	cmd := &cobra.Command{Use: "top", Short: "watch queues and workers on a terminal", Long: topHelp, Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&once, "once", false, "print once and end; JSON: {\"status\", \"queues\", \"workers\"}")
	cmd.Flags().DurationVar(&every, "every", topEvery, "refresh interval, 100ms to 1h")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.ValidEvery(every); err != nil {
			return err
		}
		screen, ok := a.Out.(*os.File)
		if !once && (!ok || !term.IsTerminal(int(screen.Fd()))) {
			return sojourn.Invalid("once", "standard output is not a terminal; print once with --once, or use \"sojourn queue ls --watch\"")
		}
		return a.With(func(c *sojourn.Client) error {
			if once {
				return a.once(cmd.Context(), c)
			}
			return a.top(cmd.Context(), c, screen, every)
		})
	}
	return cmd
}

// picture is what top shows.
type picture struct {
	Status  sojourn.Status         `json:"status"`
	Queues  []sojourn.QueueStatus  `json:"queues"`
	Workers []sojourn.WorkerStatus `json:"workers"`
}

func take(ctx context.Context, c *sojourn.Client) (p picture, err error) {
	if p.Queues, err = c.Store().Queues(ctx); err != nil {
		return p, err
	}
	if p.Workers, err = c.Store().Workers(ctx, "", sojourn.MaxFind); err != nil {
		return p, err
	}
	p.Status, err = c.Store().Status(ctx)
	return p, err
}

func (a *app) once(ctx context.Context, c *sojourn.Client) error {
	p, err := take(ctx, c)
	if err != nil {
		return err
	}
	if a.AsJSON() {
		return a.JSON(p)
	}
	_, err = io.WriteString(a.Out, p.text(nil, 0, 0))
	return err
}

// top draws until ctx ends or q is typed. It uses the terminal's alternate screen, so that the
// previous content returns at the end.
func (a *app) top(ctx context.Context, c *sojourn.Client, screen *os.File, every time.Duration) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	if in, ok := a.In.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
		go func() { keys(in); quit() }()
	}
	fmt.Fprint(a.Out, "\x1b[?1049h\x1b[?25l")
	defer fmt.Fprint(a.Out, "\x1b[?25h\x1b[?1049l")
	var now, before *picture
	var trouble error
	due, size := time.NewTicker(every), time.NewTicker(topResize)
	defer due.Stop()
	defer size.Stop()
	wide, high := 0, 0
	for look := true; ctx.Err() == nil; {
		if look {
			next, err := take(ctx, c)
			if trouble = err; err == nil {
				now, before = &next, now
			}
		}
		w, h, err := term.GetSize(int(screen.Fd()))
		if err != nil {
			return err
		}
		if look || w != wide || h != high {
			wide, high = w, h
			if err := a.draw(now, before, trouble, wide, high); err != nil {
				return err
			}
		}
		select {
		case <-due.C:
			look = true
		case <-size.C:
			look = false
		case <-ctx.Done():
		}
	}
	return nil
}

func (a *app) draw(now, before *picture, trouble error, wide, high int) error {
	frame := ""
	if trouble != nil && !errors.Is(trouble, context.Canceled) {
		frame = cut("error: "+terminal.Clean(trouble.Error()), wide) + "\n"
		high--
	}
	if now != nil {
		frame += now.text(before, wide, high)
	}
	return a.Redraw(strings.TrimSuffix(frame, "\n")) // a line feed behind the last line would scroll
}

// keys returns when somebody wants to end it: with q, Ctrl-C or Ctrl-D.
func keys(in io.Reader) {
	b := make([]byte, 1)
	for {
		n, err := in.Read(b)
		if err != nil || n > 0 && bytes.ContainsAny(b, "qQ\x03\x04") {
			return
		}
	}
}

// text is the picture, in as many columns and lines as there are; 0 = any number. before is the one
// before it, for the rates.
func (p picture) text(before *picture, wide, high int) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s  %s  %s", terminal.Clean(p.Status.Store), terminal.Clean(p.Status.Location), p.Status.Now.UTC().Format(time.RFC3339), p.sums())
	if p.Status.Wakeups != "" {
		fmt.Fprintf(&b, "  wake-ups: %s", terminal.Clean(p.Status.Wakeups))
	}
	if p.Status.DeadLeases != "" {
		fmt.Fprintf(&b, "  dead leases: %s", terminal.Clean(strings.ReplaceAll(p.Status.DeadLeases, "_", " ")))
	}
	b.WriteString("\n")
	p.queues(&b, before)
	b.WriteString("\n")
	p.workers(&b)
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if high > 1 && len(lines) > high {
		lines = append(lines[:high-1], fmt.Sprintf("… %s more", terminal.Plural(len(lines)-high+1, "line")))
	}
	for i := range lines {
		lines[i] = cut(lines[i], wide)
	}
	return strings.Join(lines, "\n") + "\n"
}

// sums are those of all queues.
func (p picture) sums() string {
	counts := map[sojourn.State]int64{}
	for _, q := range p.Queues {
		for s, n := range q.Counts {
			counts[s] += n
		}
	}
	var parts []string
	for _, s := range []sojourn.State{sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Scheduled, sojourn.Failed} {
		parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
	}
	return strings.Join(parts, "  ")
}

func (p picture) queues(w io.Writer, before *picture) {
	t := terminal.NewTable(w, "QUEUE", "READY", "RUNNING", "AWAITING", "SCHEDULED", "ERRORED", "FAILED", "DONE", "RATE", "OLDEST", "IN FLIGHT", "NOTE")
	queues := slices.Clone(p.Queues)
	slices.SortStableFunc(queues, func(x, y sojourn.QueueStatus) int { return oldest(x).Compare(oldest(y)) })
	for _, q := range queues {
		wait := ""
		if !q.OldestReady.IsZero() {
			wait = terminal.Human(max(p.Status.Now.Sub(q.OldestReady), 0))
		}
		row := []string{terminal.Short(q.Name, 32)}
		for _, s := range []sojourn.State{sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Scheduled, sojourn.Errored, sojourn.Failed, sojourn.Completed} {
			row = append(row, fmt.Sprint(q.Counts[s]))
		}
		t.Row(append(row, p.rate(q, before), wait, queuecmd.InFlight(q), queueNote(q, p.Status.Now))...)
	}
	_ = t.Flush() // into memory
}

// oldest is since when a queue has a ready job; one without comes last.
func oldest(q sojourn.QueueStatus) time.Time {
	if q.OldestReady.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return q.OldestReady
}

// rate is how many jobs of a queue have ended a second. What retention has deleted meanwhile is
// missing in it.
func (p picture) rate(q sojourn.QueueStatus, before *picture) string {
	if before == nil {
		return "-"
	}
	took := p.Status.Now.Sub(before.Status.Now).Seconds()
	i := slices.IndexFunc(before.Queues, func(b sojourn.QueueStatus) bool { return b.Name == q.Name })
	if took <= 0 {
		return "-"
	}
	var ended int64
	for _, s := range parse.FinalStates {
		ended += q.Counts[s]
		if i >= 0 {
			ended -= before.Queues[i].Counts[s]
		}
	}
	return fmt.Sprintf("%.1f/s", float64(max(ended, 0))/took)
}

// queueNote lists the unusual conditions of a queue.
func queueNote(q sojourn.QueueStatus, now time.Time) string {
	var notes []string
	if q.Settings.Paused {
		notes = append(notes, "paused")
	}
	if left := q.HeldUntil.Sub(now); left > 0 {
		notes = append(notes, "on hold for "+terminal.Human(left))
	}
	if q.Stalled > 0 {
		notes = append(notes, fmt.Sprintf("%d stalled", q.Stalled))
	}
	if len(q.Unhandled) > 0 {
		notes = append(notes, "no worker for "+terminal.Plural(len(q.Unhandled), "kind"))
	}
	return strings.Join(notes, ", ")
}

func (p picture) workers(w io.Writer) {
	t := terminal.NewTable(w, "WORKER", "NAME", "STATE", "RUNNING", "STALLED", "SEEN", "QUEUES")
	latest := slices.Clone(p.Workers)
	slices.SortStableFunc(latest, func(x, y sojourn.WorkerStatus) int { return y.SeenAt.Compare(x.SeenAt) })
	for _, k := range latest {
		t.Row(terminal.Short(k.Worker, 44), terminal.Short(k.Name, 32), string(workers.StateOf(k, p.Status.Now)), fmt.Sprint(k.Running), fmt.Sprint(k.Stalled), terminal.Ago(k.SeenAt, p.Status.Now), terminal.Short(strings.Join(k.Queues, ", "), 40))
	}
	_ = t.Flush()
}

// cut shortens a line to the width of the terminal; 0 = it has none.
func cut(line string, wide int) string {
	r := []rune(line)
	if wide < 1 || len(r) <= wide {
		return line
	}
	return string(r[:wide-1]) + "…"
}
