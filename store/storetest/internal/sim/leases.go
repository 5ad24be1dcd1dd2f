package sim

import (
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
)

func (r *run) extend(leases []sojourn.Lease) {
	attempt(r, fmt.Sprint("Extend ", leases), r.fault(faulty.Lost, faulty.Down, faulty.Twice),
		func() []string { return model.StepsOf(r.m).Extend(leases) },
		func() ([]string, error) {
			answers, err := r.store.Extend(r.ctx, leases)
			var out []string
			for _, e := range answers {
				out = append(out, model.EndOf(e.Until.UnixMicro(), e.Reason))
			}
			return out, err
		}, nil,
		func(got, want []string) string {
			if !slices.Equal(got, want) {
				return fmt.Sprintf("answered %v, want %v", got, want)
			}
			return ""
		})
	for _, l := range leases {
		if j := r.m.Stands(l); j != nil {
			r.ledger.prolonged(l, j.LeaseUntil)
		}
	}
}
