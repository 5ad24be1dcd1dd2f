// Package inside gives other packages of this module access to unexported parts of sojourn.Job: the
// running step, and whether a server has leased the id. The root package sets the functions.
// Package driver exports them for stores and workers, so the root need not.
package inside

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sojourn-queue/sojourn/internal/calendar"
)

// Step carries out the methods of the Job that a worker passes to a handler.
type Step interface {
	// SaveCheckpoint writes Job.Checkpoint under the step's lease and extends it.
	SaveCheckpoint(ctx context.Context, b []byte) error
	// SetProgress writes Job.Progress under the step's lease and extends it.
	SetProgress(ctx context.Context, text string) error
	// SetKey gives a job without a key its key, under the step's lease, which it extends.
	SetKey(ctx context.Context, key string) error
	// Logger writes to the job's own log.
	Logger() *slog.Logger
}

// The functions take a *sojourn.Job. The root package sets them when it is initialized.
var (
	// Attach connects a job with its step.
	Attach func(job any, s Step)
	// Of returns the attached step, nil if there is none.
	Of func(job any) Step
	// Calendar combines []sojourn.Windows that all must be open.
	Calendar func(windows any) (calendar.Calendar, error)
	// FromServer reports whether the Client of a server has leased the job's id.
	FromServer func(job any) bool
)

type serverKey struct{}

// AsServer returns a context in which ids are leased for a server and not for the caller.
func AsServer(ctx context.Context) context.Context { return context.WithValue(ctx, serverKey{}, true) }

// IsServer reports whether ctx comes from AsServer.
func IsServer(ctx context.Context) bool { return ctx.Value(serverKey{}) != nil }

// Unit is a number in [0, 1) derived from a and b (splitmix64, Steele and others, "Fast splittable
// pseudorandom number generators", 2014).
func Unit(a, b uint64) float64 {
	x := a*0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// Expiring makes a capability that expires at until, see access.Expiring. It reports whether token
// is a capability without an expiry.
func Expiring(token string, until time.Time) (string, bool) {
	at := strings.LastIndexByte(token, '.')
	if at < 0 || strings.Count(token, ".") != 4 || until.Unix() < 1 {
		return "", false
	}
	key, err := base64.RawURLEncoding.DecodeString(token[at+1:])
	if err != nil {
		return "", false
	}
	body := token[:at] + "." + strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(body))
	return body + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16]), true
}

// Fingerprint makes a reason of the text of an error: numbers and quoted parts are left out.
func Fingerprint(text string) string {
	var b strings.Builder
	quoted, number := false, false
	for _, r := range text {
		if b.Len() >= 80 {
			break
		}
		switch {
		case r == '"':
			quoted = !quoted
			if quoted {
				b.WriteString(`"…"`)
			}
		case quoted:
		case unicode.IsDigit(r):
			if !number {
				b.WriteByte('#')
			}
		case unicode.IsControl(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
		number = unicode.IsDigit(r)
	}
	if s := strings.TrimSpace(b.String()); s != "" {
		return s
	}
	return "error"
}
