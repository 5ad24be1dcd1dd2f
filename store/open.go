// Package store opens any store of this module by its URL, for programs that take the store from a
// setting. A program that always uses one kind of store imports its package and links nothing else.
package store

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/store/migrate"
	"github.com/sojourn-queue/sojourn/store/postgres"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Option changes how Open opens a store.
type Option func(*settings)

type settings struct {
	mustExist bool
	http      []httpapi.Option
	sqlite    []sqlite.Option
	postgres  []postgres.Option
}

// MustExist refuses to create a store: if there is none, Open returns an *sojourn.Error with
// CodeUnavailable whose Err is fs.ErrNotExist. It has no effect on PostgreSQL.
func MustExist() Option { return func(s *settings) { s.mustExist = true } }

// NoMigrate refuses an older schema with CodeSchema instead of migrating it, as PostgreSQL does by
// itself.
func NoMigrate() Option {
	return func(s *settings) { s.sqlite = append(s.sqlite, sqlite.NoMigrate()) }
}

// Migrate brings an older or missing schema to the newest version. SQLite does so by itself; on
// PostgreSQL, which many programs share, Open refuses to without this option.
func Migrate() Option {
	return func(s *settings) { s.postgres = append(s.postgres, postgres.AutoMigrate()) }
}

// InboxTTL is the time to live of a response that matches no job: 1 s or more, default 24 h.
func InboxTTL(d time.Duration) Option {
	return func(s *settings) {
		s.sqlite, s.postgres = append(s.sqlite, sqlite.InboxTTL(d)), append(s.postgres, postgres.InboxTTL(d))
	}
}

// KeepStatistics sets how many days of statistics the store keeps, and of their histograms; 0 = 30
// and 7. See sqlite.KeepStatistics.
func KeepStatistics(days, histograms int) Option {
	return func(s *settings) {
		s.sqlite, s.postgres = append(s.sqlite, sqlite.KeepStatistics(days, histograms)), append(s.postgres, postgres.KeepStatistics(days, histograms))
	}
}

// DeclaredQueues makes the store take jobs only for queues that were made with DeclareQueue; see
// sqlite.DeclaredQueues.
func DeclaredQueues() Option {
	return func(s *settings) {
		s.sqlite, s.postgres = append(s.sqlite, sqlite.DeclaredQueues()), append(s.postgres, postgres.DeclaredQueues())
	}
}

// LowSpace refuses new jobs while fewer bytes are free on the disk of an SQLite file; see
// sqlite.LowSpace. It does nothing elsewhere.
func LowSpace(bytes int64) Option {
	return func(s *settings) { s.sqlite = append(s.sqlite, sqlite.LowSpace(bytes)) }
}

// Throttle sets a queue's throttler in Go; see sqlite.Throttle and postgres.Throttle.
func Throttle(queue string, t throttle.Throttler) Option {
	return func(s *settings) {
		s.sqlite, s.postgres = append(s.sqlite, sqlite.Throttle(queue, t)), append(s.postgres, postgres.Throttle(queue, t))
	}
}

// Rules teaches the store to compile the throttle setting of queues: pass rule.Throttlers().
func Rules(compile func(text string) (throttle.Throttler, error)) Option {
	return func(s *settings) {
		s.sqlite, s.postgres = append(s.sqlite, sqlite.Rules(compile)), append(s.postgres, postgres.Rules(compile))
	}
}

// ServerToken authenticates at a server; make it with sojourn token create. Databases need none.
func ServerToken(bearer string) Option {
	return func(s *settings) { s.http = append(s.http, httpapi.Token(bearer)) }
}

// Path returns the file of an SQLite URL, ":memory:" for a store in memory, and "" for a valid URL
// of another store. Its errors are those of Open.
func Path(address string) (string, error) {
	if isPostgres(address) || IsServer(address) {
		return "", Valid(address)
	}
	path, _, err := sqliteFile(address)
	return path, err
}

// Open opens the store that a URL names and returns a client over it. The forms are
//
//	sqlite:FILE       an SQLite file, relative or absolute; it is created and migrated if need be
//	sqlite::memory:   a private store in memory, gone with Close
//	FILE.db           the same as sqlite:FILE.db
//	…?prefix=NAME     after either of them: one of several instances in the file; see sqlite.Prefix
//	postgres://…      a PostgreSQL database, also as postgresql://…, with schema=NAME and prefix=NAME among its parameters
//	{"host": …}       the same as a JSON object: host, port, db, user, password, schema, prefix, …
//	http://HOST:PORT  a server, sojourn serve; also https://. Options about tables, throttlers and the inbox are the server's own business
//
// For anything else Open returns an *sojourn.Error with CodeInvalid that lists the accepted forms.
// The caller closes the client.
func Open(address string, options ...Option) (*sojourn.Client, error) {
	s, path, address, err := prepare(address, options)
	switch {
	case err != nil:
		return nil, err
	case IsServer(address):
		return httpapi.Dial(address, s.http...)
	case path == "":
		return postgres.Open(address, s.postgres...)
	}
	return sqlite.Open(path, s.sqlite...)
}

// IsServer reports whether a URL names a server, not a database.
func IsServer(address string) bool {
	return strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")
}

// prepare reads an address and the options: path is that of an SQLite file, "" for servers and
// PostgreSQL.
func prepare(address string, options []Option) (s settings, path, server string, err error) {
	for _, o := range options {
		o(&s)
	}
	if IsServer(address) {
		return s, "", address, nil // Dial checks it
	}
	if isPostgres(address) {
		return s, "", address, postgres.Valid(address)
	}
	path, prefix, err := sqliteFile(address)
	if prefix != "" {
		s.sqlite = append(s.sqlite, sqlite.Prefix(prefix))
	}
	if err == nil && s.mustExist {
		err = exists(path)
	}
	return s, path, "", err
}

// OpenMigrator opens a store of any version to migrate its tables. URLs and options are those of
// Open; the caller closes the Migrator.
func OpenMigrator(address string, options ...Option) (migrate.Migrator, error) {
	s, path, address, err := prepare(address, options)
	switch {
	case err != nil:
		return nil, err
	case IsServer(address):
		return nil, sojourn.Invalid("store", "a server migrates its own tables; give the database URL, on the machine of the server")
	case path == "":
		return postgres.OpenMigrator(address, s.postgres...)
	}
	return sqlite.OpenMigrator(path, s.sqlite...)
}

// Valid checks the form of a URL for Open, and nothing else. The error is an *sojourn.Error with
// CodeInvalid.
func Valid(address string) error {
	if IsServer(address) {
		_, err := httpapi.Valid(address)
		return err
	}
	if isPostgres(address) {
		return postgres.Valid(address)
	}
	_, _, err := sqliteFile(address)
	return err
}

func isPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://") || isJSON(address)
}

func isJSON(address string) bool { return strings.HasPrefix(strings.TrimSpace(address), "{") }

const memory = ":memory:"

// sqliteFile returns the file that a URL names, and the prefix of the tables if it has one.
func sqliteFile(address string) (path, prefix string, err error) {
	address, parameters, _ := strings.Cut(address, "?")
	if path, err = sqlitePath(address); err != nil || parameters == "" {
		return path, "", err
	}
	values, err := url.ParseQuery(parameters)
	if err != nil {
		return "", "", sojourn.Invalid("store", "has malformed parameters; sqlite:FILE takes prefix=NAME")
	}
	for name, list := range values {
		if name != "prefix" || len(list) > 1 {
			return "", "", sojourn.Invalid("store", "has parameters that are unknown or repeated; sqlite:FILE takes prefix=NAME, once")
		}
		prefix = list[0]
	}
	if prefix == "" {
		return path, "", nil
	}
	return path, prefix, sqlite.Valid(sqlite.Prefix(prefix))
}

// sqlitePath returns the file that a URL without parameters names.
func sqlitePath(location string) (string, error) {
	path, ok := strings.CutPrefix(location, "sqlite:")
	switch {
	case location == "":
		return "", sojourn.Invalid("store", "is empty; use sqlite:FILE, postgres://… or http://…")
	case !ok && keyword.MatchString(location):
		return "", sojourn.Invalid("store", "a connection string of keywords (host=… user=…) is not taken; use postgres://user:password@host:port/database")
	case !ok && scheme(location) != "":
		return "", sojourn.Invalid("store", "%.64q has the scheme %q, which this program does not know; use sqlite:FILE, postgres://… or http://…", Redact(location), scheme(location))
	case !ok && strings.HasSuffix(location, ".db"):
		path = location
	case !ok:
		return "", sojourn.Invalid("store", "%.64q is neither sqlite:FILE nor postgres://… nor http://… nor a file that ends in .db", Redact(location))
	}
	if path == memory {
		return path, nil
	}
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(rest, "/") {
			return "", sojourn.Invalid("store", "%.64q names a host; write sqlite:FILE, without //", Redact(location))
		}
		path = rest
	}
	if strings.ContainsAny(path, "#\x00") {
		return "", sojourn.Invalid("store", "has a # or a zero byte; sqlite:FILE takes a plain file name")
	}
	if path == "" {
		return "", sojourn.Invalid("store", "%q names no file; use sqlite:FILE", location)
	}
	return path, nil
}

// scheme returns the part before the colon of a URL; "" for file names. A single letter is a drive
// of Windows.
func scheme(location string) string {
	before, _, ok := strings.Cut(location, ":")
	if !ok || len(before) < 2 || strings.ContainsAny(before, `/\.`) {
		return ""
	}
	return before
}

func exists(path string) error {
	if path == memory {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unavailable(fs.ErrNotExist, "there is no store at "+path)
	case err != nil:
		return unavailable(err, "the store at "+path+" cannot be read: "+err.Error())
	case info.IsDir():
		return unavailable(fs.ErrInvalid, path+" is a folder, not a store")
	}
	return nil
}

func unavailable(cause error, message string) error {
	return &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "store", Index: -1, Message: message, Err: cause}
}
