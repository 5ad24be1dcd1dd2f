package sqlstore

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// A column is one value as long as all rows agree, and has all rows as soon as one does not.
func TestSheet(t *testing.T) {
	s := newSheet(3, 3, 2, 3)
	s.row(1).ints(7, 0, 4).strings("a", "x").bytes(nil, []byte("p"), nil)
	s.row(2).ints(7, 0, 5).strings("a", "").bytes([]byte{}, []byte("p"), nil)
	s.row(3).ints(7, 1, 5).strings("a", "").bytes(nil, []byte("p"), []byte("q"))
	if want := (sqldb.Ints{1, 2, 3}); !reflect.DeepEqual(s.ids, want) {
		t.Errorf("ids %v, want %v", s.ids, want)
	}
	want := []sqldb.Column{sqldb.Same{Value: int64(7), N: 3}, sqldb.Ints{0, 0, 1}, sqldb.Ints{4, 5, 5}, sqldb.Same{Value: "a", N: 3}, sqldb.Texts{"x", "", ""}, sqldb.Same{Value: []byte{}, N: 3}, sqldb.Same{Value: []byte("p"), N: 3}, sqldb.Blobs{nil, nil, []byte("q")}}
	got := s.columns()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("columns\n%#v, want\n%#v", got, want)
	}
	arrays := []any{[]int64{7, 7, 7}, []int64{0, 0, 1}, []int64{4, 5, 5}, []string{"a", "a", "a"}, []string{"x", "", ""}, [][]byte{{}, {}, {}},
		[][]byte{[]byte("p"), []byte("p"), []byte("p")}, [][]byte{{}, {}, []byte("q")}}
	for i, c := range got {
		if !reflect.DeepEqual(c.Array(), arrays[i]) || c.Len() != 3 || fmt.Sprint(c.At(2)) != fmt.Sprint(reflect.ValueOf(arrays[i]).Index(2)) {
			t.Errorf("column %d: %d rows %#v, the last %v, want %#v", i, c.Len(), c.Array(), c.At(2), arrays[i])
		}
	}
}

// A sheet can get more rows than expected.
func TestSheetGrows(t *testing.T) {
	s := newSheet(1, 1, 0, 1)
	for i := range int64(50) {
		s.row(i).ints(i / 40).bytes([]byte{byte(i / 40)})
	}
	for _, c := range s.columns() {
		if c.Len() != 50 || fmt.Sprint(c.At(39)) == fmt.Sprint(c.At(40)) || fmt.Sprint(c.At(0)) != fmt.Sprint(c.At(39)) {
			t.Errorf("%#v", c)
		}
	}
	if len(newSheet(9, 1, 1, 1).columns()) != 3 {
		t.Error("no rows, no columns")
	}
}

// Text that no database can store is replaced, in constant and in varying columns.
func TestSheetStorable(t *testing.T) {
	s := newSheet(2, 0, 2, 0)
	s.row(1).strings("\xff", "a")
	s.row(2).strings("\xff", "b\x00")
	got := storableColumns(s.columns())
	if want := []sqldb.Column{sqldb.Same{Value: "\uFFFD", N: 2}, sqldb.Texts{"a", "b\uFFFD"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v", got, want)
	}
}
