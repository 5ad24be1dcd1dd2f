package txn

import "testing"

// TestFreeIDs: each id of a leased block is free once, and no other id is.
func TestFreeIDs(t *testing.T) {
	var u freeIDs
	u.add([]Block{{First: 100, Size: 65, Leased: 7}})
	u.add([]Block{{First: 1000, Size: 1, Leased: 8}})
	for _, id := range []int64{100, 163, 164, 1000} {
		b, free := u.take(id, "")
		if again, once := u.take(id, ""); !free || !b.Holds(id) || once || again != b {
			t.Errorf("%d: %v of %+v, then %v of %+v", id, free, b, once, again)
		}
	}
	if _, free := u.take(101, ""); !free {
		t.Error("101 went with its neighbours")
	}
	for _, id := range []int64{99, 165, 999, 1001} {
		if b, free := u.take(id, ""); free || b.Size != 0 {
			t.Errorf("%d was not leased, but is free in %+v", id, b)
		}
	}
	for i := range int64(cachedBlocks) {
		u.add([]Block{{First: 2000 + i, Size: 1}})
	}
	if _, free := u.take(102, ""); free || len(u) != cachedBlocks {
		t.Errorf("the oldest block is one of %d still", len(u))
	}
}

// TestFreeIDsByOwner: an id is free for the owner of its block alone, and another caller does not
// use it up.
func TestFreeIDsByOwner(t *testing.T) {
	var u freeIDs
	u.add([]Block{{First: 100, Size: 10, Owner: "alice"}})
	for _, owner := range []string{"", "bob", "*"} {
		if b, free := u.take(105, owner); free || b.Size != 0 {
			t.Errorf("%q takes an id of alice in %+v", owner, b)
		}
	}
	if _, free := u.take(105, "alice"); !free {
		t.Error("the id is used up")
	}
}
