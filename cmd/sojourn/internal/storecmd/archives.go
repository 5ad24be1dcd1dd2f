package storecmd

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/archive"
)

// lateArchives has a line for each archive whose oldest job has waited for more than half of its
// time, or that has missed jobs. They are no violations of an invariant. A store without archives
// has none.
func lateArchives(ctx context.Context, c *sojourn.Client) (lines []string) {
	all, err := archive.Of(c).List(ctx)
	if err != nil {
		return nil
	}
	for _, a := range all {
		behind := time.Duration(a.Behind * float64(time.Second))
		if behind <= a.Wait/2 && a.Missed == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %s not exported, the oldest ended %s ago and is kept for %s; %d missed", a.Name,
			terminal.Plural(int(a.Lag), "job"), terminal.Human(behind), terminal.Human(a.Wait), a.Missed))
	}
	return lines
}
