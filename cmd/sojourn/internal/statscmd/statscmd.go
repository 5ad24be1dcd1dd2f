// Package statscmd has the command "stats", which shows statistics of jobs by day, queue, kind and
// reason.
package statscmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

const longHelp = `Shows how many jobs were enqueued, completed, failed, cancelled, retried and redriven, and how long they took, for the last
days in UTC. Times are p50/p99: WAIT from when a job could start until a worker started it, RUN of the steps that their workers
reported, RESPONSE from the begin of a wait until the response that ended it, TOTAL from the enqueue or redrive until the job was
completed or failed. The JSON also has means, variances, p90, p95 and p99.9, and with --histogram the buckets.

--by takes day, queue, kind and reason; the default is queue,kind. With reason the table has the failures by reason.`

// reason is the value of --by that shows failures by reason. In the JSON each row has them.
const reason = "reason"

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "stats".
func Command(a *cli.App) *cobra.Command {
	s := &app{a}
	var q statistics.Query
	cmd := &cobra.Command{Use: "stats", Short: "numbers and times of jobs by day, queue, kind and reason", Long: longHelp, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&q.Queue, "queue", "", "only jobs of this queue")
	fl.StringVar(&q.Kind, "kind", "", "only jobs of this kind")
	fl.IntVar(&q.Days, "days", 1, "the last days, today included")
	fl.BoolVar(&q.Histogram, "histogram", false, "also the buckets of the times, in JSON")
	by := fl.StringSlice("by", []string{"queue", "kind"}, "group by day, queue, kind and reason")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q.By = nil
		reasons := false
		for _, d := range *by {
			if reasons = reasons || d == reason; d != reason {
				q.By = append(q.By, statistics.Dimension(d))
			}
		}
		if err := q.Validate(); err != nil {
			return err
		}
		return s.With(func(c *sojourn.Client) error {
			rows, err := statistics.Of(c).Rows(cmd.Context(), q)
			switch {
			case err != nil:
				return err
			case s.AsJSON():
				return cli.JSONLines(s.App, rows)
			case reasons:
				return s.reasons(rows, q.By)
			}
			return s.table(rows, q.By)
		})
	}
	return a.Watchable(cmd)
}

// dimensions are the headings of the dimensions of a table, and their values in a row.
func dimensions(by []statistics.Dimension) (heads []string, of func(statistics.Row) []string) {
	values := map[statistics.Dimension]func(statistics.Row) string{
		statistics.ByDay:   func(r statistics.Row) string { return r.Day },
		statistics.ByQueue: func(r statistics.Row) string { return r.Queue },
		statistics.ByKind:  func(r statistics.Row) string { return r.Kind },
	}
	var used []statistics.Dimension
	for _, d := range []statistics.Dimension{statistics.ByDay, statistics.ByQueue, statistics.ByKind} {
		if slices.Contains(by, d) {
			heads, used = append(heads, strings.ToUpper(string(d))), append(used, d)
		}
	}
	return heads, func(r statistics.Row) (cells []string) {
		for _, d := range used {
			cells = append(cells, values[d](r))
		}
		return cells
	}
}

func (a *app) table(rows []statistics.Row, by []statistics.Dimension) error {
	heads, of := dimensions(by)
	t := terminal.NewTable(a.Out, append(heads, "ENQUEUED", "COMPLETED", "FAILED", "CANCELLED", "RETRIED", "REDRIVEN", "WAIT", "RUN", "RESPONSE", "TOTAL")...)
	for _, r := range rows {
		cells := of(r)
		for _, n := range []int64{r.Enqueued, r.Completed, r.Failed, r.Cancelled, r.Retried, r.Redriven} {
			cells = append(cells, fmt.Sprint(n))
		}
		for _, times := range []statistics.Times{r.Wait, r.Run, r.Response, r.Total} {
			cells = append(cells, cmp.Or(times.Text(), "-"))
		}
		t.Row(cells...)
	}
	return t.Flush()
}

func (a *app) reasons(rows []statistics.Row, by []statistics.Dimension) error {
	heads, of := dimensions(by)
	t := terminal.NewTable(a.Out, append(heads, "REASON", "FAILURES")...)
	for _, r := range rows {
		names := slices.SortedFunc(maps.Keys(r.Reasons), func(a, b string) int { return cmp.Or(cmp.Compare(r.Reasons[b], r.Reasons[a]), cmp.Compare(a, b)) })
		for _, name := range names {
			t.Row(append(of(r), terminal.Clean(name), fmt.Sprint(r.Reasons[name]))...)
		}
	}
	return t.Flush()
}
