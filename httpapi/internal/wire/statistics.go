package wire

import "github.com/sojourn-queue/sojourn/store/statistics"

// Statistics are the numbers of the jobs of one combination of dimensions.
type Statistics struct{ statistics.Row }

// StatisticsAnswer has rows in the order of day, queue and kind.
type StatisticsAnswer struct {
	Rows []Statistics `json:"rows"`
}

// StatisticsOf shows rows.
func StatisticsOf(all []statistics.Row) []Statistics {
	out := make([]Statistics, len(all))
	for i, r := range all {
		out[i] = Statistics{r}
	}
	return out
}
