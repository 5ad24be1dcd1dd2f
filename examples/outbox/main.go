// Command outbox has a producer whose orders are in another database than the queue. It writes each
// message into a table beside its orders, in one transaction; a relay turns the rows of that table
// into jobs. The relay dies once, at the worst moment, and no job is lost or doubled.
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

	_ "modernc.org/sqlite" // stands for any database: the queue never sees it

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "outbox-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client, err := sqlite.Open(filepath.Join(dir, "jobs.db"))
	if err != nil {
		return err
	}
	defer client.Close()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "orders.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `create table orders (number integer primary key);
		create table outbox (id integer primary key autoincrement, kind text not null, args text not null, refused text not null default '')`); err != nil {
		return err
	}
	for number := 1; number <= 3; number++ {
		if err := place(ctx, db, number, "pack"); err != nil {
			return err
		}
	}
	if err := place(ctx, db, 4, "no kind at all"); err != nil {
		return err
	}

	fmt.Println("relay:", relay(ctx, client, db, func() error { return errors.New("killed between the queue and the outbox") }))
	fmt.Println("relay:", relay(ctx, client, db, func() error { return nil }))

	for j, err := range client.Jobs().All(ctx, sojourn.Filter{Full: true}) {
		if err != nil {
			return err
		}
		fmt.Printf("job %s: %s\n", j.Key, j.Args)
	}
	var left int
	var refused string
	if err := db.QueryRowContext(ctx, "select count(*), max(refused) from outbox").Scan(&left, &refused); err != nil {
		return err
	}
	fmt.Printf("left in the outbox: %d, because of its %s\n", left, refused)
	return nil
}

// place is the producer, in any language: an order and its message, both or neither.
func place(ctx context.Context, db *sql.DB, number int, kind string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "insert into orders (number) values (?)", number); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "insert into outbox (kind, args) values (?, ?)", kind, fmt.Sprintf(`{"order":%d}`, number)); err != nil {
		return err
	}
	return tx.Commit()
}

// relay moves up to 100 messages. First they are durable in the queue, then they leave the outbox:
// if it dies in between, the next run sends them again, and the key, kept for a day after the job's
// end, makes each the job that it is already. So several relays may run at once.
func relay(ctx context.Context, client *sojourn.Client, db *sql.DB, between func() error) error {
	rows, err := db.QueryContext(ctx, "select id, kind, args from outbox where refused = '' order by id limit 100")
	if err != nil {
		return err
	}
	defer rows.Close()
	var ids []int64
	var jobs []*sojourn.Job
	for rows.Next() {
		var id int64
		var kind, args string
		if err := rows.Scan(&id, &kind, &args); err != nil {
			return err
		}
		ids = append(ids, id)
		jobs = append(jobs, sojourn.NewJob(kind, []byte(args), sojourn.Key(fmt.Sprintf("orders-%d", id)), sojourn.KeepKey(24*time.Hour)))
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	done, err := client.EnqueueEach(ctx, jobs...) // durable when it returns
	if err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	for i, e := range done {
		if e, ok := errors.AsType[*sojourn.Error](e.Err); ok { // one that can never be taken must not hold up the others
			_, err = db.ExecContext(ctx, "update outbox set refused = ? where id = ?", e.Field, ids[i])
		} else {
			_, err = db.ExecContext(ctx, "delete from outbox where id = ?", ids[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
