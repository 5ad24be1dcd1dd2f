package sqlstore

import (
	"fmt"
	"testing"
)

func TestPartitionKeepsOrder(t *testing.T) {
	a, b := &op[int, int]{name: "a"}, &op[int, int]{name: "b"}
	group := []call{&request[int, int]{op: a, q: 1}, &request[int, int]{op: b, q: 2}, &request[int, int]{op: a, q: 3}}
	same, rest := partition(group, a)
	ins := func(cs []call) (in []any) {
		for _, c := range cs {
			in = append(in, c.(*request[int, int]).q)
		}
		return in
	}
	if got := fmt.Sprint(ins(same), ins(rest)); got != "[1 3] [2]" {
		t.Error(got)
	}
}
