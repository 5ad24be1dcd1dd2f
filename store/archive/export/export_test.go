package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/archive"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

func open(t *testing.T) *sojourn.Client {
	t.Helper()
	c, err := sqlite.Open(filepath.Join(t.TempDir(), "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func add(t *testing.T, c *sojourn.Client, d archive.Definition) {
	t.Helper()
	if _, err := archive.Of(c).Add(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// finish completes n new jobs.
func finish(t *testing.T, c *sojourn.Client, n int) (ids []sojourn.ID) {
	t.Helper()
	for range n {
		job := sojourn.NewJob("mail", []byte(`{"to": "ann"}`))
		e, err := c.Enqueue(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	if _, err := c.Store().Edit(t.Context(), sojourn.Filter{IDs: ids}, sojourn.Edit{Action: sojourn.EditCancel}); err != nil {
		t.Fatal(err)
	}
	return ids
}

func once(t *testing.T, c *sojourn.Client, name string, o Options) error {
	t.Helper()
	o.Once = true
	return Run(t.Context(), c, name, o)
}

// exported are the ids in the files of a directory, in the order of the files.
func exported(t *testing.T, dir string) (ids []sojourn.ID) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			var j struct {
				ID      sojourn.ID      `json:"id"`
				State   string          `json:"state"`
				Args    json.RawMessage `json:"args"`
				Inbox   []any           `json:"inbox"`
				History []any           `json:"history"`
			}
			if err := json.Unmarshal(s.Bytes(), &j); err != nil || j.State != "cancelled" || string(j.Args) != `{"to":"ann"}` || j.Inbox == nil || len(j.History) == 0 {
				t.Errorf("%s has the line %s (%v)", name, s.Text(), err)
			}
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func TestFiles(t *testing.T) {
	for tomorrow := time.Now().Add(2 * time.Minute); day(tomorrow) != day(time.Now()); { // a file ends with its day
		time.Sleep(time.Second)
	}
	c, dir := open(t), t.TempDir()
	add(t, c, archive.Definition{Name: "a", To: "file:" + dir})
	ids := finish(t, c, 3)
	for range 2 {
		if err := once(t, c, "a", Options{}); err != nil {
			t.Fatal(err)
		}
		if got := exported(t, dir); !slices.Equal(got, ids) {
			t.Fatalf("exported %v, want %v", got, ids)
		}
	}
	ids = append(ids, finish(t, c, 2)...)
	if err := once(t, c, "a", Options{MaxFile: 1}); err != nil { // the file before is full now
		t.Fatal(err)
	}
	ids = append(ids, finish(t, c, 2)...)
	if err := once(t, c, "a", Options{MaxFile: 1}); err != nil {
		t.Fatal(err)
	}
	if got := exported(t, dir); !slices.Equal(got, ids) {
		t.Errorf("exported %v, want %v", got, ids)
	}
	if got := names(t, dir); got != "a-000001.jsonl a-000002.jsonl a-000003.jsonl.part a.lock" {
		t.Errorf("files are %s", got)
	}
	past := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "a-000003.jsonl.part"), past, past); err != nil {
		t.Fatal(err)
	}
	if err := once(t, c, "a", Options{}); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "a-000001.jsonl a-000002.jsonl a-000003.jsonl a.lock" {
		t.Errorf("files of yesterday are %s", got)
	}
	last := finish(t, c, 1)
	if err := once(t, c, "a", Options{}); err != nil {
		t.Fatal(err)
	}
	if got := exported(t, dir); !slices.Equal(got, append(ids, last...)) {
		t.Errorf("exported %v, want %v", got, append(ids, last...))
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

// TestFilesAfterCrash continues after each step at which a program can die.
func TestFilesAfterCrash(t *testing.T) {
	for name, crash := range map[string]func(t *testing.T, dir string){
		"in the middle of a batch": func(t *testing.T, dir string) { write(t, dir, "a-000001.jsonl.part", `{"id":99,"sta`, true) },
		"after a batch that was not recorded": func(t *testing.T, dir string) {
			write(t, dir, "a-000001.jsonl.part", "{\"id\":99}\n", true)
		},
		"after the file was completed": func(t *testing.T, dir string) { rename(t, dir) },
		"after the next file was begun": func(t *testing.T, dir string) {
			rename(t, dir)
			write(t, dir, "a-000002.jsonl.part", "{\"id\":99}\n", false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := open(t), t.TempDir()
			add(t, c, archive.Definition{Name: "a", To: "file:" + dir})
			ids := finish(t, c, 2)
			if err := once(t, c, "a", Options{}); err != nil {
				t.Fatal(err)
			}
			crash(t, dir)
			ids = append(ids, finish(t, c, 2)...)
			if err := once(t, c, "a", Options{}); err != nil {
				t.Fatal(err)
			}
			if got := exported(t, dir); !slices.Equal(got, ids) {
				t.Errorf("exported %v, want %v", got, ids)
			}
		})
	}
}

func write(t *testing.T, dir, name, text string, more bool) {
	t.Helper()
	flags := os.O_CREATE | os.O_WRONLY
	if more {
		flags = os.O_APPEND | os.O_WRONLY
	}
	f, err := os.OpenFile(filepath.Join(dir, name), flags, 0o600)
	if err == nil {
		_, err = io.WriteString(f, text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, dir string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, "a-000001.jsonl.part"), filepath.Join(dir, "a-000001.jsonl")); err != nil {
		t.Fatal(err)
	}
}

// TestForeignFiles: files that the store has not recorded like this are not changed.
func TestForeignFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"missing": {func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "a-000001.jsonl.part")) }, "is missing or shorter"},
		"shorter": {func(t *testing.T, dir string) { _ = os.Truncate(filepath.Join(dir, "a-000001.jsonl.part"), 3) }, "is missing or shorter"},
		"later":   {func(t *testing.T, dir string) { write(t, dir, "a-000003.jsonl", "", false) }, "older copy"},
		"next":    {func(t *testing.T, dir string) { write(t, dir, "a-000002.jsonl", "", false) }, "older copy"},
		"longer": {func(t *testing.T, dir string) {
			write(t, dir, "a-000001.jsonl.part", "{}\n", true)
			rename(t, dir)
		}, "recorded are"},
		"directory": {func(t *testing.T, dir string) { _ = os.RemoveAll(dir) }, "make it, or mount it"},
	} {
		t.Run(name, func(t *testing.T) {
			client, dir := open(t), filepath.Join(t.TempDir(), "d")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			add(t, client, archive.Definition{Name: "a", To: "file:" + dir})
			finish(t, client, 2)
			if err := once(t, client, "a", Options{}); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			finish(t, client, 1)
			if err := once(t, client, "a", Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestTwoRunners: a second program is refused while the first one has the files.
func TestTwoRunners(t *testing.T) {
	c, dir := open(t), t.TempDir()
	add(t, c, archive.Definition{Name: "a", To: "file:" + dir})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Run(ctx, c, "a", Options{Poll: time.Millisecond}) }()
	ids := finish(t, c, 10)
	for recorded(t, c) < int64(len(ids)) {
		time.Sleep(time.Millisecond)
	}
	if err := once(t, c, "a", Options{}); sojourn.ErrorCode(err) != sojourn.CodeConflict {
		t.Errorf("the second program got %v, want a conflict", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := once(t, c, "a", Options{}); err != nil { // the lease was given back
		t.Error(err)
	}
	if got := exported(t, dir); len(got) != len(ids) {
		t.Errorf("exported %v, want %v", got, ids)
	}
}

// recorded is how many jobs the only archive has exported. The files are not read for it: they may
// have half a line while a program writes them, or when it was killed.
func recorded(t *testing.T, c *sojourn.Client) int64 {
	t.Helper()
	all, err := archive.Of(c).List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0].Exported
}

func TestTable(t *testing.T) {
	c := open(t)
	add(t, c, archive.Definition{Name: "t", To: "table:"})
	finish(t, c, 3)
	for range 2 {
		if err := once(t, c, "t", Options{}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := archive.Of(c).List(t.Context())
	if err != nil || all[0].Exported != 3 || all[0].Lag != 0 {
		t.Errorf("the archive is %+v (%v)", all, err)
	}
}

// TestWebhook: a batch is signed, comes again with its id until it is accepted, and redirects are
// not followed.
func TestWebhook(t *testing.T) {
	secret := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	var jobs int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil || r.URL.Path != "/hook" {
			t.Errorf("a request to %s: %v", r.URL, err)
		}
		ids = append(ids, r.Header.Get("Webhook-Id"))
		switch len(ids) {
		case 1:
			http.Error(w, "later", http.StatusServiceUnavailable)
		case 2:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		default:
			var in struct {
				Archive string            `json:"archive"`
				Jobs    []json.RawMessage `json:"jobs"`
			}
			if err := json.Unmarshal(body, &in); err != nil || in.Archive != "hook" {
				t.Errorf("the body is %s (%v)", body, err)
			}
			jobs += len(in.Jobs)
		}
	}))
	defer server.Close()
	c := open(t)
	t.Setenv("ARCHIVE_SECRET", secret)
	add(t, c, archive.Definition{Name: "hook", To: server.URL + "/hook", Secret: "env:ARCHIVE_SECRET"})
	finish(t, c, 3)
	for i, want := range []string{"status 503", "status 307", "<nil>", "<nil>"} {
		if err := once(t, c, "hook", Options{}); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("run %d ends with %v, want %s", i+1, err, want)
		}
	}
	if len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] || jobs != 3 {
		t.Errorf("got the batches %v with %d jobs, want one three times with 3 jobs", ids, jobs)
	}
	t.Setenv("ARCHIVE_SECRET", "hunter2")
	if err := once(t, c, "hook", Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a bad secret: %v", err)
	}
}
