package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// TestWhyShowsNearMisses: a job that waits for an answer says which one came under nearly its key.
func TestWhyShowsNearMisses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Enqueue(ctx, sojourn.NewJob("charge", nil, sojourn.Key("inv-43"))))
	claimed, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"charge"}, Max: 1, Capacity: 1})
	must(claimed, err)
	must(driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: claimed[0].Lease, Type: sojourn.OutcomeAwait}}))
	must(c.Respond(ctx, &sojourn.Response{Kind: "charge", Key: "INV-43"}))
	must(nil, c.Close())
	why := func(args ...string) string {
		var out, errs strings.Builder
		a := &cli.App{Out: &out, Err: &errs, In: strings.NewReader(""), Env: func(string) string { return "" }}
		if code := run(ctx, a, append([]string{"why", "1", "--store", "sqlite:" + path}, args...)); code != cli.ExitOK {
			t.Fatal(code, errs.String())
		}
		return out.String()
	}
	if got, want := why(), "response 1 came under INV-43: sojourn inbox match 1 --job 1\n"; !strings.Contains(got, want) {
		t.Errorf("want %q in:\n%s", want, got)
	}
	if got, want := why("-o", "json"), `"near":[{"key":"INV-43","seq":1}]`; !strings.Contains(got, want) {
		t.Errorf("want %s in:\n%s", want, got)
	}
}
