package filter_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/filter"
)

func TestText(t *testing.T) {
	f, err := filter.Of(url.Values{"where": {" kind:charge id:3,5 age:>1h "}, "id": {"5", "7"}, "tag": {"red"}})
	if err != nil || f.Kind != "charge" || f.Tag != "red" || !slices.Equal(f.IDs, []sojourn.ID{5}) || f.CreatedBefore.IsZero() {
		t.Errorf("%+v, %v", f, err)
	}
	f, err = filter.Of(url.Values{"where": {"id:3"}, "id": {"7"}}) // no job is meant, not every job
	if err != nil || f.IDs == nil || len(f.IDs) > 0 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, v := range []url.Values{{"where": {"charge"}}, {"where": {"kind:a"}, "kind": {"a"}}, {"where": {"state:live"}, "state": {"ready"}}} {
		if _, err := filter.Of(v); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%v: %v", v, err)
		}
	}
	if got := filter.Query(url.Values{"where": {"kind:a"}, "other": {"x"}}).Encode(); got != "where=kind%3Aa" {
		t.Error(got)
	}
	if f, err := filter.Bulk(url.Values{"where": {"state:final kind:a"}}, "redrive"); err != nil || !slices.Equal(f.States, []sojourn.State{sojourn.Failed, sojourn.Cancelled}) {
		t.Errorf("%+v, %v", f, err)
	}
}
