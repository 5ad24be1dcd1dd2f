package sojourn

import (
	"errors"
	"slices"
	"strconv"
	"testing"
)

// listing is a fake store with n jobs. It records the limits of its reads.
func listing(n int) (c *Client, limits *[]int) {
	s, c := newFake()
	limits = new([]int)
	s.onFind = func(_ int, f Filter) (jobs []Job, err error) {
		*limits = append(*limits, f.Limit)
		after, _ := strconv.Atoi(f.After)
		for id := after + 1; id <= n && len(jobs) < f.Limit; id++ {
			jobs = append(jobs, Job{ID: ID(id)})
		}
		return jobs, nil
	}
	return c, limits
}

// TestListSaysWhetherThereIsMore: Page.Next is set exactly if there is another page, also where the
// page is as large as the store allows.
func TestListSaysWhetherThereIsMore(t *testing.T) {
	for _, c := range []struct {
		jobs, limit int
		next        string
	}{{0, 7, ""}, {6, 7, ""}, {7, 7, ""}, {8, 7, "7"}, {100, 0, ""}, {101, 0, "100"}, {MaxFind, MaxFind, ""}, {MaxFind + 1, MaxFind, "1000"}, {2, 1, "1"}} {
		client, limits := listing(c.jobs)
		p, err := client.Jobs().List(t.Context(), Filter{Limit: c.limit})
		want := c.limit
		if want == 0 {
			want = 100
		}
		if err != nil || len(p.Items) != min(c.jobs, want) || p.Next != c.next {
			t.Errorf("%d jobs, pages of %d: %d jobs and next %q, want %q; %v", c.jobs, c.limit, len(p.Items), p.Next, c.next, err)
		}
		if slices.Max(*limits) > MaxFind {
			t.Errorf("pages of %d: a read of %d", c.limit, slices.Max(*limits))
		}
	}
}

func TestAllWalksThroughPages(t *testing.T) {
	client, limits := listing(25)
	var ids []ID
	for j, err := range client.Jobs().All(t.Context(), Filter{Limit: 10}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	if len(ids) != 25 || !slices.IsSorted(ids) || len(*limits) != 3 {
		t.Errorf("ids %v in %d reads", ids, len(*limits))
	}
	seen := 0
	for range client.Jobs().All(t.Context(), Filter{Limit: 10}) {
		if seen++; seen == 3 {
			break
		}
	}
	if len(*limits) != 4 {
		t.Errorf("a loop that breaks in the first page reads %d pages", len(*limits)-3)
	}
	s, failing := newFake()
	s.onFind = func(int, Filter) ([]Job, error) { return nil, ErrClosed }
	for j, err := range failing.Jobs().All(t.Context(), Filter{}) {
		if j != nil || !errors.Is(err, ErrClosed) {
			t.Errorf("job %v, error %v", j, err)
		}
	}
}

func TestCursors(t *testing.T) {
	client, _ := listing(3)
	for _, after := range []string{"x", "-1", "0", "1.5", "99999999999999999999"} {
		_, err := client.Jobs().List(t.Context(), Filter{After: after})
		refusal(t, err, CodeInvalid, "after")
		_, err = client.Inbox().List(t.Context(), InboxFilter{After: after})
		refusal(t, err, CodeInvalid, "after")
	}
	_, err := client.Jobs().List(t.Context(), Filter{Queue: "q", Next: true})
	refusal(t, err, CodeInvalid, "filter")
}

// TestAs: the name of the operator goes with each change, and the client that it was made from has
// none.
func TestAs(t *testing.T) {
	s, c := newFake()
	s.onEdit = func(f Filter, e Edit) (Page[Edited], error) {
		return Page[Edited]{Items: []Edited{{ID: f.IDs[0], Changed: true}}}, nil
	}
	ann := c.As("ann").Jobs()
	for _, err := range []error{ann.Cancel(t.Context(), 1, "r"), ann.Fail(t.Context(), 1, "r"), ann.Redrive(t.Context(), 1), ann.Purge(t.Context(), 1), ann.Release(t.Context(), 1, "r"), c.Cancel(t.Context(), 1, "")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ann.Edit(t.Context(), 1, Edit{Action: EditCancel, By: "bob"}); err != nil {
		t.Fatal(err)
	}
	want := []Edit{{Action: EditCancel, By: "ann", Reason: "r"}, {Action: EditFail, By: "ann", Reason: "r"}, {Action: EditRedrive, By: "ann"}, {Action: EditPurge, By: "ann"},
		{Action: EditRelease, By: "ann", Reason: "r"},
		{Action: EditCancel}, {Action: EditCancel, By: "bob"}}
	for i, e := range s.edits {
		if e.Action != want[i].Action || e.By != want[i].By || e.Reason != want[i].Reason {
			t.Errorf("edit %d: %+v, want %+v", i, e, want[i])
		}
	}
}

func TestResponseDecode(t *testing.T) {
	r := Response{Body: []byte(`{"approved":true}`)}
	var answer struct{ Approved bool }
	if err := r.Decode(&answer); err != nil || !answer.Approved {
		t.Errorf("%+v, %v", answer, err)
	}
	var b []byte
	if err := r.Decode(&b); err != nil || string(b) != string(r.Body) {
		t.Errorf("%q, %v", b, err)
	}
	refusal(t, (&Response{Body: []byte("<xml>")}).Decode(&answer), CodeInvalid, "body")
	refusal(t, (&Response{}).Decode(&answer), CodeInvalid, "body")
}
