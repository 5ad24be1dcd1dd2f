// Command transaction keeps a shop's orders and its jobs in one file: a job exists exactly if its
// order does, and what its handler writes is written exactly once, however often the handler runs.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the only driver for SQLite that may share a file with a store

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

type order struct {
	Number, Pieces int
}

var pack = sojourn.Kind[order]{Name: "pack", Key: func(o order) string { return fmt.Sprintf("order-%d", o.Number) },
	Policy: sojourn.Policy{Backoff: sojourn.Backoff{First: 10 * time.Millisecond}}}

// tables are those of the shop, beside those of the store.
const tables = `create table orders (number integer primary key, pieces integer not null);
	create table stock (pieces integer not null); insert into stock values (100)`

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "transaction-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shop.db")
	client, err := sqlite.Open(file) // before the first connection of the application
	if err != nil {
		return err
	}
	defer client.Close()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return err
	}
	s := shop{client, db}
	w := worker.New(client, worker.Options{})
	worker.Handle(w, pack, s.pack)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	if _, err := s.place(ctx, order{1, 500}); err != nil {
		fmt.Println("order 1:", err)
	}
	job, err := s.place(ctx, order{2, 30})
	if err != nil {
		return err
	}
	done, err := client.Wait(ctx, job)
	if err != nil {
		return err
	}
	var left int
	if err := db.QueryRowContext(ctx, "select pieces from stock").Scan(&left); err != nil {
		return err
	}
	fmt.Printf("order 2 is %s: %s; %d pieces are left\n", done.State, done.Result, left)
	all, err := client.Jobs().List(ctx, sojourn.Filter{})
	if err != nil {
		return err
	}
	fmt.Println("jobs:", len(all.Items))
	stop()
	return <-stopped
}

type shop struct {
	client *sojourn.Client
	db     *sql.DB
}

// place stores an order and the job that packs it, both or neither.
func (s shop) place(ctx context.Context, o order) (sojourn.ID, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, "insert into orders (number, pieces) values (?, ?)", o.Number, o.Pieces); err != nil {
		return 0, err
	}
	jobs, err := sqlite.EnqueueTx(ctx, s.client, tx, pack.New(o))
	if err != nil {
		return 0, err
	}
	var stock int
	if err := tx.QueryRowContext(ctx, "select pieces from stock").Scan(&stock); err != nil {
		return 0, err
	}
	if stock < o.Pieces {
		return 0, errors.New("there is not enough; neither the order nor its job is stored")
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	s.client.Wake() // starts the job now, instead of within 100 ms
	return jobs[0].ID, nil
}

// pack takes the pieces out of the stock in the transaction that completes the job.
func (s shop) pack(ctx context.Context, job *sojourn.Job, o order) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "update stock set pieces = pieces - ?", o.Pieces); err != nil {
		return err
	}
	if job.Attempt == 1 {
		fmt.Printf("order %d, attempt 1: taken, then something fails\n", o.Number)
		return errors.New("the label printer is jammed")
	}
	fmt.Printf("order %d, attempt %d: taken\n", o.Number, job.Attempt)
	if err := job.SetResult("packed"); err != nil {
		return err
	}
	if err := sqlite.FinishTx(ctx, s.client, tx, job); err != nil { // the last statement
		return err
	}
	return tx.Commit()
}
