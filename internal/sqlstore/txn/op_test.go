package txn

import (
	"fmt"
	"testing"
)

func TestPartitionKeepsOrder(t *testing.T) {
	a, b := &Op[int, int]{Name: "a"}, &Op[int, int]{Name: "b"}
	group := []Call{&Request[int, int]{op: a, Params: 1}, &Request[int, int]{op: b, Params: 2}, &Request[int, int]{op: a, Params: 3}}
	same, rest := Partition(group, a)
	ins := func(cs []Call) (in []any) {
		for _, c := range cs {
			in = append(in, c.(*Request[int, int]).Params)
		}
		return in
	}
	if got := fmt.Sprint(ins(same), ins(rest)); got != "[1 3] [2]" {
		t.Error(got)
	}
}
