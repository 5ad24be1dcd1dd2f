package statistics

import "testing"

func TestTimes(t *testing.T) {
	for want, times := range map[string]Times{
		"":            {},
		"0.25ms/12ms": {Count: 1, P50: 0.00025, P99: 0.012, P999: 0.012},
		"1.5s/2.0min": {Count: 1, P50: 1.5, P99: 120, P999: 120},
		"3.0h/4.0d":   {Count: 1, P50: 3 * 3600, P99: 96 * 3600, P999: 96 * 3600},
		"mean 40s":    {Count: 2, Mean: 40},
		"59s/60s":     {Count: 1, P50: 59, P99: 59.999, P999: 60},
		"0ms/100ms":   {Count: 3, P99: 0.1, P999: 0.1},
	} {
		if got := times.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
