package sojourn

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestQueueSettingsValidate(t *testing.T) {
	weight := func(w int32) Policy { return Policy{Weight: &w} }
	for _, c := range []struct {
		q     QueueSettings
		field string
	}{
		{QueueSettings{Defaults: weight(-1)}, "defaults.weight"},
		{QueueSettings{Defaults: weight(MaxWeight + 1)}, "defaults.weight"},
		{QueueSettings{Defaults: Policy{MaxAttempts: -2}}, "max_attempts"},
		{QueueSettings{Retention: Retention{Age: -2}}, "retention.age"},
		{QueueSettings{Retention: Retention{Age: MaxHorizon + 1}}, "retention.age"},
		{QueueSettings{Retention: Retention{FailedAge: -time.Hour}}, "retention.failed_age"},
		{QueueSettings{Retention: Retention{Count: -2}}, "retention.count"},
		{QueueSettings{Retention: Retention{FailedCount: math.MinInt64}}, "retention.failed_count"},
	} {
		refusal(t, c.q.Validate(), CodeInvalid, c.field)
	}
	good := []QueueSettings{{}, {Paused: true, Defaults: weight(0), Retention: Retention{-1, -1, -1, -1}},
		{Defaults: weight(MaxWeight), Retention: Retention{MaxHorizon, math.MaxInt64, MaxHorizon, math.MaxInt64}}}
	for _, q := range slices.All(good) {
		if err := q.Validate(); err != nil {
			t.Error(err)
		}
	}
}
