package webhook

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// pair is a key pair that is the same in each run, and the public key as it is given to receivers.
func pair(name string) (ed25519.PrivateKey, string) {
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	return private, "whpk_" + base64.StdEncoding.EncodeToString(private.Public().(ed25519.PublicKey))
}

// signPrivately makes the headers of a message with the signature v1a.
func signPrivately(key ed25519.PrivateKey, id string, at time.Time, body string) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	sum := ed25519.Sign(key, []byte(id+"."+stamp+"."+body))
	return header("Webhook-Id", id, "Webhook-Timestamp", stamp, "Webhook-Signature", "v1a,"+base64.StdEncoding.EncodeToString(sum))
}

// TestPublishedExample: a message with key and signature that a sender has published for its
// receivers to try. The public library signs only v1.
func TestPublishedExample(t *testing.T) {
	v := must[*Signed](t)(Standard("whpk_3wjctSTLJgR7u2or7sx0sW60ad+zZLHYHGUdMQc1QC8="))
	const stamp, body = 1752855494, `{"brand_name":"Amazon","brand_registration_id":"01981e54-4117-71b3-8122-076c7eade396","campaign_registration_id":null,` +
		`"campaign_website":null,"comments":null,"current_status":"Created","event_category":"BRAND","event_time":"2025-07-18T16:18:14.989348439+00:00",` +
		`"event_type":"Created","previous_status":null}`
	h := header("Webhook-Id", "01981e54-414d-7223-acd3-b08f82481364", "Webhook-Timestamp", strconv.Itoa(stamp),
		"Webhook-Signature", "v1a,uU7CWSRwXw0955x8rUwDnmrn8WJLEVafI1J3X4DDsP+4NOLlz16kD4FeshACNuOcxIfGl/voFXcaRcaPrEqRDg==")
	got, err := v.Verify(h, []byte(body), time.Unix(stamp+60, 0))
	if err != nil || got.ID != "01981e54-414d-7223-acd3-b08f82481364" || got.Time.Unix() != stamp {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := v.Verify(h, []byte(strings.Replace(body, "Created", "Deleted", 1)), time.Unix(stamp, 0)); !errors.Is(err, ErrSignature) {
		t.Errorf("another body: %v", err)
	}
}

// TestPublicKeys: signatures with a private key are checked like those with a secret.
func TestPublicKeys(t *testing.T) {
	const body = `{"order":"42"}`
	old, oldPublic := pair("old")
	key, public := pair("new")
	foreign, _ := pair("foreign")
	v := must[*Signed](t)(Standard(oldPublic, newSecret, public))
	good := func() http.Header { return signPrivately(key, "msg_1", noon, body) }
	with := func(name, value string) http.Header { h := good(); h.Set(name, value); return h }
	v1 := sign(t, newSecret, "msg_1", noon, body).Get("Webhook-Signature")
	v1a := good().Get("Webhook-Signature")
	wrong := signPrivately(foreign, "msg_1", noon, body).Get("Webhook-Signature")
	many := strings.Repeat(wrong+" ", MaxSignatures)
	for name, c := range map[string]struct {
		h    http.Header
		body string
		now  time.Time
		want error
	}{
		"new key":                  {good(), body, noon, nil},
		"old key":                  {signPrivately(old, "msg_1", noon, body), body, noon, nil},
		"secret":                   {with("Webhook-Signature", v1), body, noon, nil},
		"both":                     {with("Webhook-Signature", v1+" "+v1a), body, noon, nil},
		"a foreign one before":     {with("Webhook-Signature", wrong+" "+v1a), body, noon, nil},
		"another key":              {with("Webhook-Signature", wrong), body, noon, ErrSignature},
		"another body":             {good(), body + " ", noon, ErrSignature},
		"another id":               {with("Webhook-Id", "msg_2"), body, noon, ErrSignature},
		"another time":             {with("Webhook-Timestamp", strconv.FormatInt(noon.Unix()+1, 10)), body, noon, ErrSignature},
		"called v1":                {with("Webhook-Signature", "v1,"+strings.TrimPrefix(v1a, "v1a,")), body, noon, ErrSignature},
		"an HMAC called v1a":       {with("Webhook-Signature", "v1a,"+strings.TrimPrefix(v1, "v1,")), body, noon, ErrSignature},
		"short":                    {with("Webhook-Signature", v1a[:len(v1a)-4]), body, noon, ErrSignature},
		"too many before":          {with("Webhook-Signature", many+v1a), body, noon, ErrSignature},
		"the public key as secret": {header("Webhook-Id", "msg_1", "Webhook-Timestamp", "1", "Webhook-Signature", public), body, noon, ErrSignature},
		"too old":                  {good(), body, noon.Add(DefaultTolerance + time.Second), ErrStale},
		"from the future":          {good(), body, noon.Add(-DefaultTolerance - time.Second), ErrStale},
	} {
		got, err := v.Verify(c.h, []byte(c.body), c.now)
		if !errors.Is(err, c.want) || err == nil && (got.ID != "msg_1" || !got.Time.Equal(noon)) || err != nil && got != (Verified{}) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	only := must[*Signed](t)(Standard(newSecret))
	if _, err := only.Verify(good(), []byte(body), noon); !errors.Is(err, ErrSignature) {
		t.Errorf("without a public key: %v", err)
	}
	for name, text := range map[string]string{"short": "whpk_AAAA", "no base64": "whpk_%", "private": "whsk_" + base64.StdEncoding.EncodeToString(key)} {
		if _, err := Standard(text); err == nil || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString(key)[:20]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An endpoint is served only at its path. Two endpoints cannot share a path.
func TestPath(t *testing.T) {
	s := newStage(t, must[*sojourn.Client](t)(sqlite.Open(":memory:")))
	s.open(func(o *Options) { o.Endpoints[0].Path = "/hooks/v2/bank" })
	const body = `{"order":"42"}`
	s.gets(202, "early", "/hooks/v2/bank", body, sign(s, newSecret, "m1", noon, body))
	s.gets(200, "duplicate", "/hooks/v2/b%61nk", body, sign(s, newSecret, "m1", noon, body))
	for _, path := range []string{"/webhook/bank", "/hooks/v2", "/hooks/v2/bank/", "/hooks//v2/bank", "/hooks/v2/bank/x"} {
		s.gets(404, "not_found", path, body, sign(s, newSecret, "m1", noon, body))
	}
	good := Endpoint{Name: "a", Verify: must[*Signed](t)(Standard(newSecret)), Match: match, Kinds: []string{"*"}}
	for _, path := range []string{"hooks", "/", "/hooks/", "/hooks/../x", "/a b", "/a%20b", "/a?b", "/respond", "/respond/charge/42", "/" + strings.Repeat("x", 255)} {
		e := good
		e.Path = path
		if _, err := New(nil, Options{Endpoints: []Endpoint{e}}); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%q: %v", path, err)
		}
	}
	other := good
	other.Name, other.Path = "b", "/webhook/a"
	if _, err := New(nil, Options{Endpoints: []Endpoint{good, other}}); err == nil || !strings.Contains(err.Error(), "the same, /webhook/a") {
		t.Errorf("one path twice: %v", err)
	}
}
