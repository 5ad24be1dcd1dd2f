package jobrow

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// A column is one value as long as all rows agree, and has all rows as soon as one does not.
func TestColumns(t *testing.T) {
	s := NewColumns(3, 3, 2, 3)
	s.Row(1).Ints(7, 0, 4).Strings("a", "x").Bytes(nil, []byte("p"), nil)
	s.Row(2).Ints(7, 0, 5).Strings("a", "").Bytes([]byte{}, []byte("p"), nil)
	s.Row(3).Ints(7, 1, 5).Strings("a", "").Bytes(nil, []byte("p"), []byte("q"))
	if want := (sqldb.Ints{1, 2, 3}); !reflect.DeepEqual(s.IDs, want) {
		t.Errorf("ids %v, want %v", s.IDs, want)
	}
	want := []sqldb.Column{sqldb.Same{Value: int64(7), N: 3}, sqldb.Ints{0, 0, 1}, sqldb.Ints{4, 5, 5}, sqldb.Same{Value: "a", N: 3}, sqldb.Texts{"x", "", ""}, sqldb.Same{Value: []byte{}, N: 3}, sqldb.Same{Value: []byte("p"), N: 3}, sqldb.Blobs{nil, nil, []byte("q")}}
	got := s.All()
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

// TestColumnsGrow: more rows than expected can be added.
func TestColumnsGrow(t *testing.T) {
	s := NewColumns(1, 1, 0, 1)
	for i := range int64(50) {
		s.Row(i).Ints(i / 40).Bytes([]byte{byte(i / 40)})
	}
	for _, c := range s.All() {
		if c.Len() != 50 || fmt.Sprint(c.At(39)) == fmt.Sprint(c.At(40)) || fmt.Sprint(c.At(0)) != fmt.Sprint(c.At(39)) {
			t.Errorf("%#v", c)
		}
	}
	if len(NewColumns(9, 1, 1, 1).All()) != 3 {
		t.Error("no rows, no columns")
	}
}

// Text that no database can store is replaced, in constant and in varying columns.
func TestColumnsStorable(t *testing.T) {
	s := NewColumns(2, 0, 2, 0)
	s.Row(1).Strings("\xff", "a")
	s.Row(2).Strings("\xff", "b\x00")
	got := StorableColumns(s.All())
	if want := []sqldb.Column{sqldb.Same{Value: "\uFFFD", N: 2}, sqldb.Texts{"a", "b\uFFFD"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v", got, want)
	}
}
