package workflow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

func job() *sojourn.Job { return sojourn.NewJob("work", nil) }

func TestValidateRefuses(t *testing.T) {
	for want, w := range map[string]*Workflow{
		"":                         New("order").Add("a", job(), After("b")).Add("b", job()).OnEnd(job()).OnFirstFailure(job()),
		"two members":              New("order").Add("a", job()).Add("a", job()),
		`waits for "c"`:            New("order").Add("a", job(), After("c")),
		": a → c → b → a":          New("order").Add("a", job(), After("c")).Add("b", job(), After("a")).Add("c", job(), After("b")),
		": a → a":                  New("order").Add("a", job(), After("a")),
		": b → c → b":              New("order").Add("a", job(), After("b")).Add("b", job(), After("c")).Add("c", job(), After("b")),
		"name:":                    New("").Add("a", job()),
		"members: are missing":     New("order"),
		"has none":                 New("order").Add("a", nil),
		"none of wait, cancel":     New("order").Add("a", job(), After("b").OnFailure("explode")).Add("b", job()),
		"on_end.run_at":            New("order").Add("a", job()).OnEnd(sojourn.NewJob("end", nil, sojourn.Delay(1))),
		"on_first_failure.id":      New("order").Add("a", job()).OnFirstFailure(sojourn.NewJob("end", nil, sojourn.WithID(1))),
		"the store draws the ids":  New("order").Add("a", sojourn.NewJob("work", nil, sojourn.WithID(1))),
		"cannot replace":           New("order").Add("a", sojourn.NewJob("work", nil, sojourn.OnKeyConflict(sojourn.Replace))),
		"keep: 1ns is out of rang": func() *Workflow { w := New("order").Add("a", job()); w.Keep = 1; return w }(),
	} {
		err := w.Validate(1 << 20)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	many := New("many")
	for i := range sojourn.MaxBatch + 1 {
		many.Add(fmt.Sprint("m", i), job())
	}
	if err := many.Validate(1 << 20); err == nil || !strings.Contains(err.Error(), "StartAll") {
		t.Error(err)
	}
}

// A chain of any length needs no stack.
func TestOrderOfALongChain(t *testing.T) {
	w := New("chain")
	const n = 100_000
	for i := range n {
		w.Add(fmt.Sprint("m", i), job(), After(fmt.Sprint("m", i+1)))
	}
	w.Add(fmt.Sprint("m", n), job())
	sorted, err := w.inOrder()
	if err != nil || sorted[0].Name != fmt.Sprint("m", n) || sorted[n].Name != "m0" {
		t.Fatal(err, sorted[0].Name, sorted[n].Name)
	}
}

func TestStoreWithoutWorkflows(t *testing.T) {
	s := Workflows{none{}}
	_, err := s.Start(t.Context(), New("w").Add("a", job()))
	for _, f := range []func() error{
		func() error { return err },
		func() error { _, err := s.Get(t.Context(), "w"); return err },
		func() error { _, err := s.Cancel(t.Context(), "w", ""); return err },
		func() error { _, err := s.Append(t.Context(), "w"); return err },
		func() error {
			for _, err := range s.Members(t.Context(), "w") {
				return err
			}
			return nil
		},
	} {
		if err := f(); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Error(err)
		}
	}
}
