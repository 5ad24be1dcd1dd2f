package jobrow

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// valuesRow is a row of a result.
type valuesRow []any

func (r valuesRow) Int(col int) int64    { return r[col].(int64) }
func (r valuesRow) Text(col int) string  { return r[col].(string) }
func (r valuesRow) Bytes(col int) []byte { return nil }

// TestColumnsRoundTrip: a row that is scanned is written as it was read, each column from a field
// of its own.
func TestColumnsRoundTrip(t *testing.T) {
	read := valuesRow{int64(7)}
	wanted := []any{int64(4), int64(2)} // state and epoch, as they were read
	for i, c := range liveTable {
		v := any(int64(i + 1))
		switch {
		case c.flag != nil:
			v = int64(i % 2)
		case c.decode != nil:
			v = fmt.Sprintf(`{"keys":["%s"]}`, c.name)
		case c.isText():
			v = c.name
		}
		read = append(read, v)
		if !c.fixed {
			wanted = append(wanted, v)
		}
	}
	var d Decoder
	l, err := d.Scan(append(read, "group", `{"max_attempts":9}`))
	if err != nil {
		t.Fatal(err)
	}
	if l.ID != 7 || l.Group != "group" || l.Policy.MaxAttempts != 9 || !l.Awaited || l.Kind != "kind" || l.State != 1 || l.R2 != 5 {
		t.Errorf("scanned %+v", l)
	}
	w := &Updates[ByAny]
	out := NewColumns(1, 2+len(w.Numbers), len(w.Texts), 0)
	out.Row(int64(l.ID)).Ints(int64(sojourn.Running), 2)
	w.Fill(out, 2, []*Row{l})
	columns := out.All()
	if !slices.Equal(out.IDs, sqldb.Ints{7}) || len(columns) != len(wanted) {
		t.Fatalf("%d columns for the ids %v, want %d", len(columns), out.IDs, len(wanted))
	}
	for i, c := range columns {
		if c.At(0) != wanted[i] {
			t.Errorf("column %d is written as %v, want %v", i, c.At(0), wanted[i])
		}
	}
}

// TestWaitsWithTheirTime: a wait is read as it was written, with and without the time at which it
// began.
func TestWaitsWithTheirTime(t *testing.T) {
	var d Decoder
	for _, w := range []sojourn.Wait{{}, {Within: time.Hour}, {Poll: sojourn.Backoff{First: time.Second}}, {Keys: []string{`a","waited_us":7}`, "b"}, Mode: sojourn.WaitAll}} {
		for _, at := range []int64{0, 5, 1_772_442_000_000_000} {
			for range 2 { // the second time from the cache
				l := Row{Awaited: true, WaitedAt: at}
				l.Wait = w
				var got Row
				if err := decodeWait(&d, &got, waitJSON(&l)); err != nil || !reflect.DeepEqual(got, l) {
					t.Errorf("%s is read as %+v: %v", waitJSON(&l), got, err)
				}
			}
		}
	}
}
