package rules

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

func TestValidSettings(t *testing.T) {
	weight := func(w int32) sojourn.Policy { return sojourn.Policy{Weight: &w} }
	for _, c := range []struct {
		q     sojourn.QueueSettings
		field string
	}{
		{sojourn.QueueSettings{Defaults: weight(-1)}, "defaults.weight"},
		{sojourn.QueueSettings{Defaults: weight(sojourn.MaxWeight + 1)}, "defaults.weight"},
		{sojourn.QueueSettings{Defaults: sojourn.Policy{MaxAttempts: -2}}, "max_attempts"},
		{sojourn.QueueSettings{Retention: sojourn.Retention{Age: -2}}, "retention.age"},
		{sojourn.QueueSettings{Retention: sojourn.Retention{Age: sojourn.MaxHorizon + 1}}, "retention.age"},
		{sojourn.QueueSettings{Retention: sojourn.Retention{FailedAge: -time.Hour}}, "retention.failed_age"},
		{sojourn.QueueSettings{Retention: sojourn.Retention{Count: -2}}, "retention.count"},
		{sojourn.QueueSettings{Retention: sojourn.Retention{FailedCount: math.MinInt64}}, "retention.failed_count"},
	} {
		if e, ok := errors.AsType[*sojourn.Error](ValidSettings(c.q)); !ok || e.Code != sojourn.CodeInvalid || e.Field != c.field {
			t.Errorf("%+v: %v, want the field %s", c.q, e, c.field)
		}
	}
	good := []sojourn.QueueSettings{{}, {Paused: true, Defaults: weight(0), Retention: sojourn.Retention{Age: -1, Count: -1, FailedAge: -1, FailedCount: -1}},
		{Defaults: weight(sojourn.MaxWeight), Retention: sojourn.Retention{Age: sojourn.MaxHorizon, Count: math.MaxInt64, FailedAge: sojourn.MaxHorizon, FailedCount: math.MaxInt64}}}
	for _, q := range slices.All(good) {
		if err := ValidSettings(q); err != nil {
			t.Error(err)
		}
	}
}
