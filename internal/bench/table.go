package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteJSON writes one object: the name of each system and its figures.
func WriteJSON(out io.Writer, _ []Entry, found map[string]Figures) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(found)
}

var heading = []string{"system", "life/s", "ours", "enqueue/s", "ours", "p50 ms", "p99 ms", "bare life/s", "bulk life/s", "ours", "bulk/s", "ours", "durability"}

// cells are a line under the heading. "ours" is how many times as much ours reaches.
func cells(name string, f Figures) []string {
	r := cmp.Or(f.Ratio, &Ratio{})
	return []string{name, rate(f.LifePerS), times(r.Life), rate(f.EnqueuePerS), times(r.Enqueue), took(f.EnqueueP50MS),
		took(f.EnqueueP99MS), rate(f.BareLifePerS), rate(f.BulkLifePerS), times(r.BulkLife), rate(f.BulkPerS), times(r.Bulk), f.Durability}
}

// WriteTable writes one line for each system, in the order of the entries.
func WriteTable(out io.Writer, entries []Entry, found map[string]Figures) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(heading, "\t"))
	for _, e := range entries {
		fmt.Fprintln(t, strings.Join(cells(e.Name, found[e.Name]), "\t"))
	}
	return t.Flush()
}

// WriteMarkdown writes the same for docs/benchmarks.md.
func WriteMarkdown(out io.Writer, entries []Entry, found map[string]Figures) error {
	lines := []string{"| " + strings.Join(heading, " | ") + " |", strings.Repeat("|---", len(heading)) + "|"}
	for _, e := range entries {
		lines = append(lines, "| "+strings.Join(cells(e.Name, found[e.Name]), " | ")+" |")
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

func rate(perSecond float64) string {
	if perSecond == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", perSecond)
}

func took(milliseconds float64) string {
	if milliseconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", milliseconds)
}

func times(r float64) string {
	if r == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", r)
}
