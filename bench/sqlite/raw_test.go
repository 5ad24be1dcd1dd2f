package sqlite

import (
	"path/filepath"
	"testing"

	sqlite3 "zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/bench/rawtest"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

func TestRawLeavesTheSameRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ours.db")
	c, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ours := &raw{folder: t.TempDir()}
	if err := ours.connect(path); err != nil {
		t.Fatal(err)
	}
	defer ours.conn.Close()
	r, started := opened(t), opened(t)
	var ids []int64
	rawtest.SameRows(t, c, rows(t, ours), rawtest.Raw{
		Worker:  rawWorker,
		Enqueue: func() error { return r.enqueue(1) },
		Claim:   func() (err error) { ids, err = r.claim(1); return err },
		Finish:  func() error { return r.finish(ids) },
		Rows:    rows(t, r),
	}, func() error { _, err := started.start(1); return err }, rows(t, started))
}

func opened(t *testing.T) *raw {
	t.Helper()
	r, err := openRaw()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func rows(t *testing.T, r *raw) rawtest.Rows {
	return func(table string) (out []map[string]any) {
		st, err := r.conn.Prepare("select * from " + table)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Reset()
		for {
			more, err := st.Step()
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				return out
			}
			row := map[string]any{}
			for i := range st.ColumnCount() {
				name := st.ColumnName(i)
				switch st.ColumnType(i) { // before ColumnText, which changes it
				case sqlite3.TypeInteger:
					row[name] = st.ColumnInt64(i)
				case sqlite3.TypeBlob:
					b := make([]byte, st.ColumnLen(i))
					row[name] = b[:st.ColumnBytes(i, b)]
				default:
					row[name] = st.ColumnText(i)
				}
			}
			out = append(out, row)
		}
	}
}
