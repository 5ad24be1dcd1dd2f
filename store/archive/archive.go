// Package archive exports finished jobs before retention deletes them.
//
//	archives := archive.Of(client)
//	_, err := archives.Add(ctx, archive.Definition{Name: "billing", Filter: archive.Filter{Queue: "payments"}, To: "file:/var/lib/archive"})
//	err = export.Run(ctx, client, "billing", export.Options{})
//
// An archive has a name, a filter and a target. While it has not exported a final job that matches
// its filter, retention keeps that job, until the job's end is Wait ago; then the job is deleted,
// and the archive counts it as missed. Package export exports the jobs to files, a table or a
// webhook, one program at a time for each archive. A job is exported once for each generation that
// is final when the archive reads it.
package archive

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

const (
	// DefaultWait is how long retention keeps a job that an archive has not exported.
	DefaultWait = 7 * 24 * time.Hour
	// MinWait is the least Definition.Wait.
	MinWait = time.Minute
	// MaxWait is the longest Definition.Wait.
	MaxWait = 90 * 24 * time.Hour
	// MaxArchives is the number of archives of one access token, and of the application.
	MaxArchives = 20
	// MaxLag is how many final jobs a status looks at for Lag and Behind, with the exported ones.
	MaxLag = 10_000
	// MinLease is the shortest lease of the program that exports, see Store.LeaseArchive.
	MinLease = time.Second
	// MaxLease is the longest one.
	MaxLease = 10 * time.Minute
	// MaxPage is the number of bytes of one job as JSON that a table takes: 64 MiB.
	MaxPage = 64 << 20
	// maxTarget bounds Definition.To and Definition.Secret.
	maxTarget = 2048
	maxName   = 64
)

// Filter chooses final jobs. Everything that is set must match.
type Filter struct {
	Queue  string          `json:"queue,omitempty"`
	Kind   string          `json:"kind,omitempty"`
	States []sojourn.State `json:"states,omitempty"` // completed, failed, cancelled; none: all three
}

// Has reports whether the filter takes jobs that ended in a state.
func (f Filter) Has(s sojourn.State) bool {
	for _, one := range f.States {
		if one == s {
			return true
		}
	}
	return len(f.States) == 0 && s.Final()
}

// Validate checks names and states.
func (f Filter) Validate() error {
	for _, n := range []struct{ field, name string }{{"queue", f.Queue}, {"kind", f.Kind}} {
		if n.name != "" {
			if err := sojourn.ValidName(n.field, n.name); err != nil {
				return err
			}
		}
	}
	for i, s := range f.States {
		if !s.Final() {
			return sojourn.Invalid("states", "number %d is not a final state; use completed, failed or cancelled", i+1)
		}
	}
	return nil
}

// Definition is what an operator says of an archive.
type Definition struct {
	Name   string // 1 to 64 bytes of A-Za-z0-9_-, because it begins the names of files
	Filter Filter
	// To is the target: file:/DIRECTORY, an absolute path on the machine of the program that
	// exports; table:, the table sj_archive_job of the store's database; or the https or http URL
	// of a webhook.
	To string
	// Secret is where the secret of a webhook is found, in the program that exports: env:NAME or
	// file:PATH. The secret itself is not stored. Empty for other targets.
	Secret string
	Wait   time.Duration // how long after its end a job is kept for this archive; MinWait to MaxWait, 0 = DefaultWait
}

// Kind is the kind of a target.
type Kind string

// The kinds of targets.
const (
	ToFile    Kind = "file"
	ToTable   Kind = "table"
	ToWebhook Kind = "webhook"
)

// Target returns the kind of the target, and the directory or the URL. The error has CodeInvalid.
func (d Definition) Target() (Kind, string, error) {
	if len(d.To) > maxTarget {
		return "", "", sojourn.Invalid("to", "has %d bytes; allowed are up to %d", len(d.To), maxTarget)
	}
	if dir, ok := strings.CutPrefix(d.To, "file:"); ok {
		dir = strings.TrimPrefix(dir, "//")
		if !absolute(dir) || strings.ContainsRune(dir, 0) {
			return "", "", sojourn.Invalid("to", "%.64q is not the absolute path of a directory, as in file:/var/lib/archive", dir)
		}
		return ToFile, dir, nil
	}
	if d.To == "table:" || d.To == "table" {
		return ToTable, "", nil
	}
	u, err := url.Parse(d.To)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Fragment != "" {
		return "", "", sojourn.Invalid("to", "this is no target: use file:/DIRECTORY, table: or the http or https URL of a webhook, without a user and a fragment")
	}
	return ToWebhook, d.To, nil
}

// absolute reports whether a path is absolute on Unix or on Windows.
func absolute(dir string) bool {
	windows := len(dir) > 2 && dir[1] == ':' && (dir[2] == '\\' || dir[2] == '/')
	return path.IsAbs(dir) || windows
}

// Validate checks all fields.
func (d Definition) Validate() error {
	if err := validName(d.Name); err != nil {
		return err
	}
	if err := d.Filter.Validate(); err != nil {
		return err
	}
	if d.Wait != 0 && (d.Wait < MinWait || d.Wait > MaxWait) {
		return sojourn.Invalid("wait", "%v is out of range: 1m to 90 days, or 0 for 7 days", d.Wait)
	}
	kind, _, err := d.Target()
	if err != nil {
		return err
	}
	env, isEnv := strings.CutPrefix(d.Secret, "env:")
	file, isFile := strings.CutPrefix(d.Secret, "file:")
	switch {
	case kind != ToWebhook && d.Secret != "":
		return sojourn.Invalid("secret", "only a webhook has a secret")
	case kind == ToWebhook && !(isEnv && env != "" || isFile && file != "") || len(d.Secret) > maxTarget:
		return sojourn.Invalid("secret", "say where the secret of the webhook is found: env:NAME or file:PATH; the secret itself is not stored")
	}
	return nil
}

func validName(name string) error {
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return sojourn.Invalid("archive", "%.64q has %q at byte %d; allowed are A-Za-z0-9_-", name, c, i)
		}
	}
	if len(name) < 1 || len(name) > maxName {
		return sojourn.Invalid("archive", "the name of an archive has 1 to %d bytes, this one has %d", maxName, len(name))
	}
	return nil
}

// File is a place in the files of an archive.
type File struct {
	Sequence int64 `json:"sequence"` // of the file, from 1; 0 before the first
	Bytes    int64 `json:"bytes"`    // its length up to the last exported job
}

// Status is an archive.
type Status struct {
	Name       string        `json:"name"`
	Owner      string        `json:"owner,omitempty"` // the access token that has made it; empty without one
	Filter     Filter        `json:"filter"`
	To         string        `json:"to"`
	Secret     string        `json:"secret,omitempty"` // where the secret is found
	Wait       time.Duration `json:"wait"`
	Exported   int64         `json:"exported"` // jobs, each generation counts
	Missed     int64         `json:"missed"`   // jobs that were deleted before they were exported
	Lag        int64         `json:"lag"`      // final jobs that are not exported, among the first MaxLag that it looks at
	Behind     float64       `json:"behind"`   // time in seconds since the oldest of them ended; 0 = none
	File       File          `json:"file"`     // of a target file
	Runner     string        `json:"runner,omitempty"`
	LeaseUntil time.Time     `json:"lease_until,omitzero"`
	ExportedAt time.Time     `json:"exported_at,omitzero"` // the last time
	CreatedAt  time.Time     `json:"created_at"`
}

// Definition is the archive as it was added.
func (s Status) Definition() Definition {
	return Definition{Name: s.Name, Filter: s.Filter, To: s.To, Secret: s.Secret, Wait: s.Wait}
}

// Lease is the right of one program to export an archive.
type Lease struct {
	Status
	Epoch int64 `json:"epoch"` // rises with each lease; RecordArchive refuses an earlier one
}

// Position is a place in one pass through the final jobs of an archive. The empty one is before all
// of them.
type Position string

// PositionOf makes a position of the queue, the state, the end in microseconds and the id of a job.
func PositionOf(queue string, state sojourn.State, end int64, id sojourn.ID) Position {
	return Position(fmt.Sprintf("%d-%d-%d-%s", state, end, id, queue))
}

// Parse returns the parts of a position. The error has CodeInvalid.
func (p Position) Parse() (queue string, state sojourn.State, end int64, id sojourn.ID, err error) {
	parts := strings.SplitN(string(p), "-", 4)
	bad := sojourn.Invalid("after", "%.64q is not a position; use next of the page before, or leave it out", string(p))
	if len(parts) < 4 {
		return "", 0, 0, 0, bad
	}
	s, err1 := strconv.ParseInt(parts[0], 10, 8)
	end, err2 := strconv.ParseInt(parts[1], 10, 64)
	n, err3 := strconv.ParseInt(parts[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || parts[3] == "" || PositionOf(parts[3], sojourn.State(s), end, sojourn.ID(n)) != p {
		return "", 0, 0, 0, bad
	}
	return parts[3], sojourn.State(s), end, sojourn.ID(n), nil
}

// Read is one read of the final jobs that are not exported.
type Read struct {
	Archive string
	After   Position // Next of the page before in this pass; empty begins a pass
	// Full begins the pass with the oldest job. Without it, with those that ended up to a minute
	// before the last complete pass began: all but those whose transaction was open for longer.
	Full  bool
	Limit int // 1 to sojourn.MaxFind; 0 = 100
}

// Job is an exported job: what "sojourn job get" shows of it, and its history.
type Job struct {
	*sojourn.Job
	Inbox   []sojourn.Response     `json:"inbox"` // the responses about it, the newest first; at most sojourn.MaxFind
	History []sojourn.HistoryEntry `json:"history"`
}

// Page has final jobs that are not exported. A page can be empty though more follow.
type Page struct {
	Jobs []Job     `json:"jobs"`
	Next Position  `json:"next,omitempty"` // After of the next page; empty: the pass is complete
	At   time.Time `json:"at"`             // when it was read; that of the first page is Record.Through of the last
}

// Exported is a generation of a job.
type Exported struct {
	Job        sojourn.ID `json:"job"`
	Generation int32      `json:"generation"`
	Page       []byte     `json:"page,omitempty"` // the job as JSON, for the target table; empty for others
}

// Record is the progress of an export under a lease.
type Record struct {
	Archive string
	Epoch   int64 // of the lease
	Jobs    []Exported
	File    File          // the place reached in the files; the zero value leaves it
	Through time.Time     // a pass that has begun then is complete; zero: none
	Lease   time.Duration // extends the lease, as LeaseArchive; 0 ends it
}

// Store is an optional ability of a sojourn.Store: it keeps archives. All methods are safe for
// concurrent use. An archive belongs to the Caller in ctx that has made it; others do not see it.
// The application without a Caller lists all, and removes those of tokens by the name TOKEN/NAME.
type Store interface {
	// AddArchive makes an archive: from its return on, retention keeps final jobs of its filter.
	// The Caller needs the verbs operate and read:args on them. The same definition again changes
	// nothing; another one with the name is ErrConflict. The error has CodeUnavailable if a
	// transaction that deletes jobs stays open for long; repeat the call.
	AddArchive(ctx context.Context, d Definition) (Status, error)
	// Archives lists archives in the order of owner and name.
	Archives(ctx context.Context) ([]Status, error)
	// RemoveArchive deletes an archive, or ErrNotFound. What it has exported stays.
	RemoveArchive(ctx context.Context, name string) error
	// LeaseArchive gives the archive to a runner for MinLease to MaxLease, and ends the lease
	// that the runner of the same name has had. While another has it, the error is ErrConflict.
	LeaseArchive(ctx context.Context, name, runner string, d time.Duration) (Lease, error)
	// ReadArchive reads final jobs that are not exported. The Caller needs read:args on all jobs of
	// the filter.
	ReadArchive(ctx context.Context, r Read) (Page, error)
	// RecordArchive records exported jobs in one transaction. ErrLeaseLost if the lease is not the
	// archive's last one; then nothing is recorded.
	RecordArchive(ctx context.Context, r Record) error
}
