package main

import (
	"database/sql"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/sojourntest"
)

// TestPackIsRetriedAfterRollback: the first attempt rolls back its change of the stock.
func TestPackIsRetriedAfterRollback(t *testing.T) {
	h := sojourntest.New(t, sojourntest.InFile())
	db, err := sql.Open("sqlite", h.DSN()) // the file of the store
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(tables); err != nil {
		t.Fatal(err)
	}
	left := func() (pieces int) {
		if err := db.QueryRow("select pieces from stock").Scan(&pieces); err != nil {
			t.Fatal(err)
		}
		return pieces
	}

	s := shop{h.Client, db}
	sojourntest.Handle(h, pack, s.pack)
	if _, err := s.place(t.Context(), order{1, 500}); err == nil {
		t.Fatal("an order of more than the stock is accepted")
	}
	if _, err := s.place(t.Context(), order{2, 30}); err != nil {
		t.Fatal(err)
	}
	h.RunUntilIdle()
	h.RequireState("order-2", sojourn.Scheduled)
	if n := left(); n != 100 {
		t.Errorf("%d pieces are left after the rollback, want 100", n)
	}
	h.Advance(time.Minute)
	h.RunUntilIdle()
	h.RequireState("order-2", sojourn.Completed)
	if n := left(); n != 70 {
		t.Errorf("%d pieces are left, want 70", n)
	}
}
