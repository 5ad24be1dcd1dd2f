package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/inside"
)

// Source is the source under which a store keeps a response of this caller that calls its source
// name: the same name for the application, and "token:ID" or "token:ID/name" for the holder of an
// access token. So a token cannot speak for a configured source, nor use up its message ids.
func (c *Caller) Source(name string) (string, error) {
	switch {
	case c == nil && name == "":
		return "", nil
	case c == nil:
		return name, sojourn.ValidSource("source", name)
	case name == "":
		return tokenSource + c.Token, nil
	}
	full := tokenSource + c.Token + "/" + name
	if len(full) > sojourn.MaxKey {
		return "", sojourn.Invalid("source", "has %d bytes; with this access token, %d are allowed", len(name), sojourn.MaxKey-(len(full)-len(name)))
	}
	return full, nil
}

// NewToken makes the capability of one wait of one job: its holder may answer that wait and nothing
// else. It is an HMAC-SHA256 over "id.generation.attempt.wait", cut to 128 bits. wait is Row.Waits:
// the number of waits of the generation that were answered before. The capability is valid until
// its wait is answered or the next attempt begins; [ExpiringToken] makes it expire sooner.
func NewCapability(secret []byte, id sojourn.ID, generation, attempt, wait int32) string {
	return CapabilityMaker(secret)(id, generation, attempt, wait)
}

// TokenMaker is NewToken for many capabilities: it prepares the secret once. The function that it
// returns belongs to one goroutine.
func CapabilityMaker(secret []byte) func(id sojourn.ID, generation, attempt, wait int32) string {
	mac := hmac.New(sha256.New, secret)
	var sum [sha256.Size]byte
	text := make([]byte, 0, 80)
	return func(id sojourn.ID, generation, attempt, wait int32) string {
		text = append(strconv.AppendInt(text[:0], int64(id), 10), '.')
		text = append(strconv.AppendInt(text, int64(generation), 10), '.')
		text = append(strconv.AppendInt(text, int64(attempt), 10), '.')
		text = strconv.AppendInt(text, int64(wait), 10)
		mac.Reset()
		mac.Write(text)
		return string(base64.RawURLEncoding.AppendEncode(append(text, '.'), mac.Sum(sum[:0])[:16]))
	}
}

// ExpiringToken makes a capability that expires at until: its holder cannot answer later. It needs
// no secret, because the signature of the token signs the time. Its resolution is one second.
// CodeInvalid if token is no capability, or has an expiry already.
func Expiring(token string, until time.Time) (string, error) {
	expiring, ok := inside.Expiring(token, until)
	if !ok {
		return "", sojourn.Invalid("token", "the token is invalid or has expired; use a token that the store has issued")
	}
	return expiring, nil
}

// Capability is the content of a token: one wait of one attempt of one job.
type Capability struct {
	Job        sojourn.ID
	Generation int32
	Attempt    int32
	Wait       int32     // see Row.Waits
	Until      time.Time // zero: it has no time limit of its own
}

// ParseToken verifies a capability in constant time and returns its content. It does not check the
// expiry, which depends on the store's clock.
func ParseCapability(secret []byte, token string) (Capability, error) {
	bad := sojourn.Invalid("token", "this store has not issued the token; send it to the store of its job")
	parts := strings.Split(token, ".")
	if len(parts) < 5 || len(parts) > 6 || len(token) > sojourn.MaxKey {
		return Capability{}, bad
	}
	n, err1 := strconv.ParseInt(parts[0], 10, 64)
	g, err2 := strconv.ParseInt(parts[1], 10, 32)
	a, err3 := strconv.ParseInt(parts[2], 10, 32)
	w, err4 := strconv.ParseInt(parts[3], 10, 32)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return Capability{}, bad
	}
	c := Capability{Job: sojourn.ID(n), Generation: int32(g), Attempt: int32(a), Wait: int32(w)}
	want := NewCapability(secret, c.Job, c.Generation, c.Attempt, c.Wait)
	if len(parts) == 6 {
		until, err := strconv.ParseInt(parts[4], 10, 64)
		if err != nil || until < 1 {
			return Capability{}, bad
		}
		c.Until = time.Unix(until, 0)
		if want, err = Expiring(want, c.Until); err != nil {
			return Capability{}, bad
		}
	}
	if !hmac.Equal([]byte(want), []byte(token)) {
		return Capability{}, bad
	}
	return c, nil
}
