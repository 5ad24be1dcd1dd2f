package webhook

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Tolerance and limits of signatures.
const (
	DefaultTolerance = 5 * time.Minute // how far the clock of the sender may be off, either way
	MaxSecrets       = 10              // of one endpoint, while secrets are replaced
	MaxSignatures    = 10              // in one header; further ones are not looked at
)

// Verified holds the authenticated properties of a message.
type Verified struct {
	ID   string    // of the message, the same whenever it is sent again; "" if the sender gives none
	Time time.Time // when it was signed; zero if the signature has no time
}

// Verifier authenticates a message. It gets the body as bytes: nothing is parsed before it returns
// nil. It must be safe for concurrent use and compare secrets in constant time. Any error is
// answered with 401, without its text.
type Verifier interface {
	Verify(h http.Header, body []byte, now time.Time) (Verified, error)
}

// Refusals of the verifiers of this package.
var (
	ErrSignature = errors.New("webhook: the signature matches none of the configured secrets; check the secret of the sender")
	ErrStale     = errors.New("webhook: the message was signed too long ago, or in the future")
)

// Signed verifies signatures over the body: HMAC-SHA256, and with public keys Ed25519. Standard,
// GitHub and Stripe make it. Its fields may be changed before the first message.
type Signed struct {
	// Tolerance is how far the time of a signature may be from now, either way: default 5 min. It
	// has no effect on GitHub, whose signatures have no time.
	Tolerance time.Duration

	secrets [][]byte
	public  []ed25519.PublicKey
	read    func(h http.Header, body []byte) (claim, bool)
}

// claim holds the properties that a message states, before its signature is verified.
type claim struct {
	Verified
	timed  bool
	signed [][]byte // the signed bytes, in pieces
	given  [][]byte // signatures with a secret; one of them must match
	public [][]byte // or one of these signatures with a private key
	id     func() string
}

// Verify compares every signature with every secret, so that its duration does not reveal which
// one matches.
func (s *Signed) Verify(h http.Header, body []byte, now time.Time) (Verified, error) {
	c, ok := s.read(h, body)
	if !ok || len(c.given)+len(c.public) == 0 {
		return Verified{}, ErrSignature
	}
	fits := 0
	for _, secret := range s.secrets {
		mac := hmac.New(sha256.New, secret)
		for _, piece := range c.signed {
			mac.Write(piece)
		}
		want := mac.Sum(nil)
		for _, given := range c.given[:min(len(c.given), MaxSignatures)] {
			fits |= subtle.ConstantTimeCompare(want, given)
		}
	}
	if fits == 0 && !s.signedPrivately(c) {
		return Verified{}, ErrSignature
	}
	tolerance := s.Tolerance
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if off := now.Sub(c.Time).Abs(); c.timed && off > tolerance {
		return Verified{}, ErrStale
	}
	if c.id != nil {
		c.ID = c.id()
	}
	return c.Verified, nil
}

// signedPrivately reports whether a signature fits a public key. Public keys are no secrets, so the
// time that this takes may say which.
func (s *Signed) signedPrivately(c claim) bool {
	if len(s.public) == 0 || len(c.public) == 0 {
		return false
	}
	text := bytes.Join(c.signed, nil)
	for _, key := range s.public {
		for _, given := range c.public[:min(len(c.public), MaxSignatures)] {
			if len(given) == ed25519.SignatureSize && ed25519.Verify(key, text, given) {
				return true
			}
		}
	}
	return false
}

// Standard verifies Standard Webhooks (https://www.standardwebhooks.com): the headers webhook-id,
// webhook-timestamp and webhook-signature. A secret is "whsec_" and the base64 of 24 to 64 bytes,
// for the signatures v1, or a public key, "whpk_" and the base64 of 32 bytes, for v1a; give the new
// one beside the old one while the sender changes over. The id is signed, so a replayed message is
// a duplicate.
func Standard(secrets ...string) (*Signed, error) {
	s := &Signed{read: readStandard}
	for i, text := range secrets {
		encoded, public := strings.CutPrefix(text, "whpk_")
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(encoded, "whsec_"))
		switch {
		case public && (err != nil || len(key) != ed25519.PublicKeySize):
			return nil, sojourn.Invalid("secrets", "number %d is not \"whpk_\" with the base64 of 32 bytes", i+1)
		case strings.HasPrefix(text, "whsk_"):
			return nil, sojourn.Invalid("secrets", "number %d is a private key, which only the sender may have: give the public one, \"whpk_\"", i+1)
		case public:
			s.public = append(s.public, key)
		case err != nil || len(key) < 24 || len(key) > 64:
			return nil, sojourn.Invalid("secrets", "number %d is not \"whsec_\" with the base64 of 24 to 64 bytes", i+1)
		default:
			s.secrets = append(s.secrets, key)
		}
	}
	return s, enough(len(secrets))
}

func readStandard(h http.Header, body []byte) (claim, bool) {
	id, stamp := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	at, ok := parseStamp(stamp)
	c := claim{Verified: Verified{ID: id, Time: at}, timed: true, signed: [][]byte{[]byte(id + "." + stamp + "."), body}}
	for _, one := range strings.Fields(h.Get("Webhook-Signature")) {
		version, text, _ := strings.Cut(one, ",")
		sum, err := base64.StdEncoding.DecodeString(text)
		switch {
		case err != nil:
		case version == "v1":
			c.given = append(c.given, sum)
		case version == "v1a":
			c.public = append(c.public, sum)
		}
	}
	return c, ok && id != ""
}

// GitHub verifies X-Hub-Signature-256, "sha256=" and the hex HMAC of the body. Neither a time nor
// X-GitHub-Delivery is signed, so the id of a message is the digest of its body: a recorded message
// cannot be replayed under another id.
func GitHub(secrets ...string) (*Signed, error) {
	keys, err := plain(secrets)
	if err != nil {
		return nil, err
	}
	return signed(keys, func(h http.Header, body []byte) (claim, bool) {
		text, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
		sum, err := hex.DecodeString(text)
		return claim{signed: [][]byte{body}, given: [][]byte{sum}, id: func() string { return digest(body) }}, ok && err == nil
	})
}

// Stripe verifies Stripe-Signature, "t=" and a time, "v1=" and the hex HMAC of "time.body". The id
// of a message is the top-level "id" of its body, which stays the same when Stripe sends it again;
// without one it is the digest of the body.
func Stripe(secrets ...string) (*Signed, error) {
	keys, err := plain(secrets)
	if err != nil {
		return nil, err
	}
	return signed(keys, func(h http.Header, body []byte) (claim, bool) {
		c := claim{timed: true, id: func() string { return eventID(body) }}
		ok, stamp := false, ""
		for _, part := range strings.Split(h.Get("Stripe-Signature"), ",") {
			switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
			case "t":
				stamp = value
				c.Time, ok = parseStamp(value)
			case "v1":
				if sum, err := hex.DecodeString(value); err == nil {
					c.given = append(c.given, sum)
				}
			}
		}
		c.signed = [][]byte{[]byte(stamp + "."), body}
		return c, ok
	})
}

func eventID(body []byte) string {
	var event struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &event) != nil || event.ID == "" {
		return digest(body)
	}
	return event.ID
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func signed(keys [][]byte, read func(http.Header, []byte) (claim, bool)) (*Signed, error) {
	return &Signed{secrets: keys, read: read}, enough(len(keys))
}

// enough checks the number of secrets.
func enough(n int) error {
	if n == 0 || n > MaxSecrets {
		return sojourn.Invalid("secrets", "there are %d; give 1 to %d", n, MaxSecrets)
	}
	return nil
}

// minSecret is the least length of a secret that is not encoded.
const minSecret = 16

func plain(secrets []string) ([][]byte, error) {
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		if len(s) < minSecret {
			return nil, sojourn.Invalid("secrets", "number %d has %d bytes; at least %d are needed", i+1, len(s), minSecret)
		}
		keys[i] = []byte(s)
	}
	return keys, nil
}

// parseStamp reads whole seconds since 1970, in digits only.
func parseStamp(text string) (time.Time, bool) {
	if len(text) > 12 || strings.Trim(text, "0123456789") != "" {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(n, 0), err == nil
}

// bearer knows the digests of secrets.
type bearer [][sha256.Size]byte

// Bearer verifies "Authorization: Bearer SECRET", for senders that sign nothing. A secret has 16
// bytes or more. The id of a message is the header Webhook-Id or Idempotency-Key; without one a
// message that is sent twice is two messages.
func Bearer(secrets ...string) (Verifier, error) {
	keys, err := plain(secrets)
	if err != nil {
		return nil, err
	}
	if err := enough(len(keys)); err != nil {
		return nil, err
	}
	b := make(bearer, len(keys))
	for i, k := range keys {
		b[i] = sha256.Sum256(k)
	}
	return b, nil
}

// Verify compares digests, so that not even the length of a secret shows.
func (b bearer) Verify(h http.Header, _ []byte, _ time.Time) (Verified, error) {
	scheme, secret, _ := strings.Cut(h.Get("Authorization"), " ")
	given, fits := sha256.Sum256([]byte(secret)), 0
	for _, want := range b {
		fits |= subtle.ConstantTimeCompare(want[:], given[:])
	}
	if fits == 0 || !strings.EqualFold(scheme, "Bearer") {
		return Verified{}, ErrSignature
	}
	return Verified{ID: givenID(h)}, nil
}

// givenID is the id that a sender has given to a message without signing it.
func givenID(h http.Header) string {
	if id := h.Get("Webhook-Id"); id != "" {
		return id
	}
	return h.Get("Idempotency-Key")
}
