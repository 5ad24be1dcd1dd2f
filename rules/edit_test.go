package rules

import (
	"testing"

	"github.com/sojourn-queue/sojourn"
)

func TestChangesOfOtherStates(t *testing.T) {
	tags, priority, weight := []string{"a"}, int32(1), int32(2)
	for _, c := range []struct {
		c              sojourn.Edit
		only, awaiting bool
	}{
		{sojourn.Edit{}, false, true},
		{sojourn.Edit{Tags: &tags}, true, true},
		{sojourn.Edit{AddTags: &tags, RemoveTags: &tags}, true, true},
		{sojourn.Edit{Tags: &tags, Priority: &priority}, false, true},
		{sojourn.Edit{Priority: &priority}, false, true},
		{sojourn.Edit{Tags: &tags, Weight: &weight}, false, false},
		{sojourn.Edit{Priority: &priority, DropCheckpoint: true}, false, false},
	} {
		if OnlyTags(c.c) != c.only || WhileAwaiting(c.c) != c.awaiting {
			t.Errorf("%+v: only tags %v, while awaiting %v", c.c, OnlyTags(c.c), WhileAwaiting(c.c))
		}
	}
}

func TestChooses(t *testing.T) {
	for _, c := range []struct {
		f  sojourn.Filter
		e  sojourn.Edit
		ok bool
	}{
		{sojourn.Filter{}, sojourn.Edit{}, false},
		{sojourn.Filter{Limit: 9, Newest: true}, sojourn.Edit{}, false},
		{sojourn.Filter{}, sojourn.Edit{All: true}, true},
		{sojourn.Filter{Key: "k"}, sojourn.Edit{}, true},
		{sojourn.Filter{Key: "k"}, sojourn.Edit{All: true}, false},
	} {
		if err := Chooses(c.f, c.e); (err == nil) != c.ok {
			t.Errorf("%+v with all %v: %v", c.f, c.e.All, err)
		}
	}
}
