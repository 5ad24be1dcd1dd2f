package layers

import (
	"reflect"
	"slices"
	"testing"
)

type rate struct{ Count int }

type settings struct {
	Paused bool
	Limit  int
	Shares map[string]int
	Rate   *rate
}

type patch struct {
	Revision int             `json:"revision"`
	Limit    *int            `json:"limit,omitempty"`
	Shares   *map[string]int `json:"shares,omitempty"`
	Rate     *rate           `json:"rate,omitempty"`
}

func TestLayers(t *testing.T) {
	declared := settings{Paused: true, Limit: 5, Shares: map[string]int{"a": 1}, Rate: &rate{3}}
	for what, p := range map[string]patch{
		"nothing": {}, "values": {Limit: new(7), Shares: &map[string]int{"b": 2}, Rate: &rate{4}}, "off": {Limit: new(0), Shares: &map[string]int{}, Rate: &rate{}},
	} {
		inForce := Apply(declared, p)
		if !inForce.Paused || declared.Limit != 5 || len(declared.Shares) != 1 {
			t.Errorf("%s: a field outside the patch, or the declared settings, changed: %+v %+v", what, inForce, declared)
		}
		if diff := Diff[patch](declared, inForce); !reflect.DeepEqual(diff, p) {
			t.Errorf("%s: the difference to %+v is %+v, want %+v", what, inForce, diff, p)
		}
		if picked := Pick[patch](inForce, Names(p)); !reflect.DeepEqual(picked, p) {
			t.Errorf("%s: picked %+v, want %+v", what, picked, p)
		}
		if again := Apply(declared, Without(p, Known[patch]())); !reflect.DeepEqual(again, declared) {
			t.Errorf("%s: without the patch: %+v", what, again)
		}
	}
	if off := Apply(declared, patch{Rate: &rate{}}); off.Rate != nil {
		t.Errorf("a rate that is off: %+v", off.Rate)
	}
	merged := Merge(patch{Limit: new(1), Rate: &rate{1}}, patch{Limit: new(0), Shares: new(map[string]int)})
	if *merged.Limit != 0 || merged.Rate.Count != 1 || !slices.Equal(Names(merged), []string{"limit", "shares", "rate"}) {
		t.Errorf("merged: %+v", merged)
	}
	if merged.Shares == nil || *merged.Shares == nil {
		t.Error("the JSON of the merged shares is null")
	}
	if rest := Without(merged, []string{"rate", "limit"}); !slices.Equal(Names(rest), []string{"shares"}) {
		t.Errorf("without rate and limit: %v", Names(rest))
	}
}
