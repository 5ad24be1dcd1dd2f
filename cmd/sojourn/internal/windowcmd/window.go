// Package windowcmd has the command "window", which previews time windows.
package windowcmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/queuecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/rules"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "window".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

const windowHelp = `Shows when windows open and close, and clock changes of the time zone. A WINDOW is
[DAYS] START-END [ZONE] [except DATES], or the same as JSON. If you give several, at least one must be open:

  sojourn window preview "05:00-07:00 Europe/Berlin" "22:00-23:00 Europe/Berlin"
  sojourn window preview "mon-fri 22:00-06:00 America/New_York except 2026-12-24,2026-12-25" -n 10
  sojourn window preview '{"days":["sun"],"start":"02:30","end":"04:00","zone":"Europe/Berlin"}' --from 2026-10-24T00:00:00Z
  sojourn window preview --queue reports       windows of a queue
  sojourn window preview --job 42              windows of a job, its kind and its queue combined

With --queue or --job, the given windows must be open too, so you can preview a change. Without both, no store is needed.`

func (a *app) command() *cobra.Command {
	return cli.Group("window", "preview time windows", a.previewCommand())
}

// previewFlags are the options of window preview.
type previewFlags struct {
	queue, from, zone string
	job               int64
	count             int
}

func (a *app) previewCommand() *cobra.Command {
	f := previewFlags{count: 5}
	cmd := &cobra.Command{Use: "preview [WINDOW...]", Short: "show when windows open and close", Long: windowHelp}
	fl := cmd.Flags()
	fl.StringVar(&f.queue, "queue", "", "the windows of this queue")
	fl.Int64Var(&f.job, "job", 0, "the windows of this job, its kind and its queue")
	fl.StringVar(&f.from, "from", "", "start at this `time`, such as 2026-10-24T00:00:00Z (default now)")
	fl.StringVar(&f.zone, "zone", "", "time zone of the output (default the zone of the first window)")
	fl.IntVarP(&f.count, "count", "n", f.count, "number of openings, 1 to 1000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given, err := parse.Windows(args)
		if err != nil {
			return err
		}
		all := []sojourn.Windows{given}
		if f.queue != "" || f.job != 0 {
			err = a.With(func(c *sojourn.Client) error {
				all, err = storedWindows(cmd, c, f, given)
				return err
			})
		}
		if err != nil {
			return err
		}
		return a.preview(f, all)
	}
	return cmd
}

// storedWindows adds those of a queue and a job.
func storedWindows(cmd *cobra.Command, c *sojourn.Client, f previewFlags, given sojourn.Windows) ([]sojourn.Windows, error) {
	var all []sojourn.Windows
	if len(given) > 0 {
		all = append(all, given)
	}
	queue := f.queue
	if f.job != 0 {
		j, err := c.Get(cmd.Context(), sojourn.ID(f.job))
		if err != nil {
			return nil, err
		}
		all = append(all, j.Policy.Windows...)
		if queue == "" {
			queue = j.Queue
		}
	}
	s, err := queuecmd.Settings(cmd.Context(), c, queue)
	if err != nil {
		return nil, err
	}
	if len(s.Windows) > 0 {
		all = append(all, s.Windows)
	}
	return all, nil
}

// opening is one line of a preview.
type opening struct {
	Opens time.Time     `json:"opens"`
	Shuts time.Time     `json:"shuts,omitzero"` // missing where it does not within five years
	For   time.Duration `json:"for,omitempty"`
	Note  string        `json:"note,omitempty"` // about a clock change
}

func (a *app) preview(f previewFlags, all []sojourn.Windows) error {
	from := time.Now()
	if f.from != "" {
		var err error
		if from, err = parse.Time("from", f.from); err != nil {
			return err
		}
	}
	if f.count < 1 || f.count > 1000 {
		return sojourn.Invalid("count", "%d is out of range: 1 to 1000", f.count)
	}
	zone, err := zoneOf(f.zone, all)
	if err != nil {
		return err
	}
	list, err := nextOpenings(from.In(zone), f.count, all)
	if err != nil {
		return err
	}
	if a.AsJSON() {
		return a.JSON(struct {
			Zone     string            `json:"zone"`
			TZ       string            `json:"tz_version"`
			Windows  []sojourn.Windows `json:"windows"`
			Openings []opening         `json:"openings"`
		}{zone.String(), sojourn.TZVersion, all, list})
	}
	if len(all) == 0 || len(all) == 1 && len(all[0]) == 0 {
		return a.Printf("there are no windows: always open\n")
	}
	t := terminal.NewTable(a.Out, "OPENS", "CLOSES", "FOR", "")
	for _, o := range list {
		shuts, length := "not within five years", ""
		if !o.Shuts.IsZero() {
			shuts, length = o.Shuts.Format("Mon 2006-01-02 15:04:05 -07:00"), o.For.String()
		}
		t.Row(o.Opens.Format("Mon 2006-01-02 15:04:05 -07:00"), shuts, length, o.Note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return a.Printf("times in %s, by the zone rules tz %s\n", zone, sojourn.TZVersion)
}

// zoneOf is the zone to show times in.
func zoneOf(name string, all []sojourn.Windows) (*time.Location, error) {
	for _, ws := range all {
		if name == "" && len(ws) > 0 {
			name = ws[0].Zone
		}
	}
	return rules.Zone(name)
}

// nextOpenings are at most n openings from a moment on. If the windows are open then, the first
// began before it.
func nextOpenings(from time.Time, n int, all []sojourn.Windows) ([]opening, error) {
	var list []opening
	for at := from; len(list) < n; {
		opens, err := rules.NextOpening(at, all...)
		if err != nil && len(list) > 0 {
			break // it was the last one
		}
		if err != nil {
			return nil, err
		}
		shuts, err := rules.NextClosing(opens, sojourn.WindowHorizon, all...)
		if err != nil {
			return nil, err
		}
		o := opening{Opens: opens.In(from.Location()), Shuts: shuts.In(from.Location()), For: shuts.Sub(opens)}
		if o.For >= sojourn.WindowHorizon {
			o.Shuts, o.For = time.Time{}, 0
			return append(list, o), nil
		}
		o.Note = changeNote(o)
		if opens.Equal(from) {
			o.Note = strings.TrimSpace("open already " + o.Note)
		}
		list, at = append(list, o), shuts
	}
	return list, nil
}

// changeNote says that the clock changes at the opening, at the closing or between.
func changeNote(o opening) string {
	_, before := o.Opens.Add(-time.Second).Zone()
	_, after := o.Shuts.Zone()
	if before == after {
		return ""
	}
	return fmt.Sprintf("clock change: %s to %s", o.Opens.Add(-time.Second).Format("-07:00"), o.Shuts.Format("-07:00"))
}
