package demo

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

func ledgerAt(t *testing.T, path string) *ledger {
	t.Helper()
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.journal.close() })
	return l
}

func note(t *testing.T, l *ledger, entries ...entry) {
	t.Helper()
	for _, e := range entries {
		if err := l.write(e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLedgerRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demo.ledger")
	l := ledgerAt(t, path)
	if gaps, next := l.open(); gaps != nil || next != 1 {
		t.Errorf("a new ledger: gaps %v, next %d", gaps, next)
	}
	note(t, l, entry{Order: 1, Job: 11}, entry{Order: 4, Job: 14}, entry{Order: 2, Job: 12},
		entry{Answer: "evt_1", Outcome: sojourn.Early}, entry{Answer: "evt_1", Outcome: sojourn.Duplicate}, entry{Answer: "evt_2", Outcome: sojourn.Applied},
		entry{Order: 9, Job: 19, Kind: "export_orders"}, entry{Answer: "evt_1", Source: "nats", Outcome: sojourn.Parked})
	again := ledgerAt(t, path)
	for _, l := range []*ledger{l, again} {
		if gaps, next := l.open(); !slices.Equal(gaps, []int{3}) || next != 5 {
			t.Errorf("gaps %v, next %d", gaps, next)
		}
		if ids := l.sorted(); !slices.Equal(ids, []sojourn.ID{11, 12, 14, 19}) || l.enqueued() != 4 {
			t.Errorf("jobs %v", ids)
		}
		if ids := l.messages(); !slices.Equal(ids, []answer{{"gateway", "evt_1"}, {"gateway", "evt_2"}, {"nats", "evt_1"}}) {
			t.Errorf("messages %v", ids)
		}
		if r := l.responses(); r != (Responses{Applied: 1, Early: 1, Duplicate: 1, Parked: 1}) {
			t.Errorf("%+v", r)
		}
		if r := l.over("nats", "export_orders"); r != (PartnerReport{Broker: "nats", Kind: "export_orders", Jobs: 1, Parked: 1}) {
			t.Errorf("%+v", r)
		}
	}
}

func TestLedgerSkipsATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demo.ledger")
	if err := os.WriteFile(path, []byte(`{"order":1,"job":11}`+"\n"+`{"order":2,"jo`), 0o600); err != nil {
		t.Fatal(err)
	}
	note(t, ledgerAt(t, path), entry{Order: 3, Job: 13})
	if ids := ledgerAt(t, path).sorted(); !slices.Equal(ids, []sojourn.ID{11, 13}) {
		t.Errorf("jobs %v", ids)
	}
}
