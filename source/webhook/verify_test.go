package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sojourn-queue/sojourn"
)

var (
	oldSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("the old secret of this test, 32 B"))
	newSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("the new secret of this test, 32 B"))
	noon      = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
)

// sign makes the headers of a message as the public library of Standard Webhooks makes them.
func sign(t testing.TB, secret, id string, at time.Time, body string) http.Header {
	t.Helper()
	sender, err := standard.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := sender.Sign(id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return header("Webhook-Id", id, "Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10), "Webhook-Signature", signature)
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func hexMAC(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestStandard(t *testing.T) {
	const body = `{"order":"42"}`
	v := must[*Signed](t)(Standard(oldSecret, newSecret))
	good := func() http.Header { return sign(t, newSecret, "msg_1", noon, body) }
	with := func(name, value string) http.Header { h := good(); h.Set(name, value); return h }
	for _, secret := range []string{oldSecret, newSecret} { // while they are replaced
		got, err := v.Verify(sign(t, secret, "msg_1", noon, body), []byte(body), noon)
		if err != nil || got.ID != "msg_1" || !got.Time.Equal(noon) {
			t.Errorf("%v, %v", got, err)
		}
	}
	both := good().Get("Webhook-Signature") + " " + sign(t, "whsec_"+base64.StdEncoding.EncodeToString([]byte("an unknown secret of 24 B")), "msg_1", noon, body).Get("Webhook-Signature")
	for name, h := range map[string]http.Header{"several signatures": with("Webhook-Signature", "v1a,xyz v2, "+both), "others before it": with("Webhook-Signature", "v1,AAAA "+both)} {
		if _, err := v.Verify(h, []byte(body), noon); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	foreign := sign(t, "whsec_"+base64.StdEncoding.EncodeToString([]byte("an unknown secret of 24 B")), "msg_1", noon, body)
	many := strings.Repeat("v1,AAAA ", MaxSignatures) + good().Get("Webhook-Signature")
	for name, c := range map[string]struct {
		h    http.Header
		body string
		now  time.Time
		want error
	}{
		"another secret":          {foreign, body, noon, ErrSignature},
		"another body":            {good(), body + " ", noon, ErrSignature},
		"another id":              {with("Webhook-Id", "msg_2"), body, noon, ErrSignature},
		"another time":            {with("Webhook-Timestamp", strconv.FormatInt(noon.Unix()+1, 10)), body, noon, ErrSignature},
		"no id":                   {with("Webhook-Id", ""), body, noon, ErrSignature},
		"no time":                 {with("Webhook-Timestamp", ""), body, noon, ErrSignature},
		"a time with a sign":      {with("Webhook-Timestamp", "+"+strconv.FormatInt(noon.Unix(), 10)), body, noon, ErrSignature},
		"no signature":            {with("Webhook-Signature", ""), body, noon, ErrSignature},
		"no headers":              {http.Header{}, body, noon, ErrSignature},
		"another version":         {with("Webhook-Signature", strings.Replace(good().Get("Webhook-Signature"), "v1,", "v2,", 1)), body, noon, ErrSignature},
		"a cut signature":         {with("Webhook-Signature", good().Get("Webhook-Signature")[:20]), body, noon, ErrSignature},
		"too many signatures":     {with("Webhook-Signature", many), body, noon, ErrSignature},
		"an old message":          {good(), body, noon.Add(DefaultTolerance + time.Second), ErrStale},
		"a message of the future": {good(), body, noon.Add(-DefaultTolerance - time.Second), ErrStale},
		"nearly old":              {good(), body, noon.Add(DefaultTolerance), nil},
		"nearly of the future":    {good(), body, noon.Add(-DefaultTolerance), nil},
	} {
		if _, err := v.Verify(c.h, []byte(c.body), c.now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	v.Tolerance = time.Hour
	if _, err := v.Verify(good(), []byte(body), noon.Add(50*time.Minute)); err != nil {
		t.Error("a tolerance of one hour:", err)
	}
}

func TestGitHubAndStripe(t *testing.T) {
	const secret, body = "a secret of 16 bytes or more", `{"id":"evt_1","ref":"42"}`
	github := must[*Signed](t)(GitHub("another secret of some bytes", secret))
	h := header("X-Hub-Signature-256", "sha256="+hexMAC(secret, body), "X-Github-Delivery", "1")
	first, err := github.Verify(h, []byte(body), noon)
	h.Set("X-Github-Delivery", "2") // nobody has signed it
	second, err2 := github.Verify(h, []byte(body), noon.AddDate(1, 0, 0))
	if err != nil || err2 != nil || first != second || first.ID != digest([]byte(body)) {
		t.Errorf("%v, %v, %v, %v", first, err, second, err2)
	}
	for _, bad := range []string{"", "sha256=", "sha1=" + hexMAC(secret, body), "sha256=" + hexMAC(secret, body+" "), "sha256=" + hexMAC(secret, body)[:62], "sha256=zz"} {
		if _, err := github.Verify(header("X-Hub-Signature-256", bad), []byte(body), noon); !errors.Is(err, ErrSignature) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	stripe := must[*Signed](t)(Stripe(secret))
	stamp := strconv.FormatInt(noon.Unix(), 10)
	signature := hexMAC(secret, stamp+"."+body)
	for _, good := range []string{"t=" + stamp + ",v1=" + signature, "t=" + stamp + ", v0=00, v1=00, v1=" + signature} {
		if got, err := stripe.Verify(header("Stripe-Signature", good), []byte(body), noon.Add(time.Minute)); err != nil || got.ID != "evt_1" || !got.Time.Equal(noon) {
			t.Errorf("%q: %v, %v", good, got, err)
		}
	}
	if got, err := stripe.Verify(header("Stripe-Signature", "t="+stamp+",v1="+hexMAC(secret, stamp+".{")), []byte("{"), noon); err != nil || got.ID != digest([]byte("{")) {
		t.Errorf("a body without an id: %v, %v", got, err)
	}
	for _, bad := range []string{"", "v1=" + signature, "t=" + stamp, "t=" + stamp + ",v0=" + signature, "t=" + stamp + "1,v1=" + signature, "t=x,v1=" + signature} {
		if _, err := stripe.Verify(header("Stripe-Signature", bad), []byte(body), noon); !errors.Is(err, ErrSignature) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := stripe.Verify(header("Stripe-Signature", "t="+stamp+",v1="+signature), []byte(body), noon.Add(time.Hour)); !errors.Is(err, ErrStale) {
		t.Error("an old message:", err)
	}
}

func TestBearer(t *testing.T) {
	const secret = "a secret of 16 bytes or more"
	v := must[Verifier](t)(Bearer("another secret of some bytes", secret))
	for h, id := range map[*http.Header]string{
		new(header("Authorization", "Bearer "+secret)):                                                      "",
		new(header("Authorization", "bearer another secret of some bytes", "Idempotency-Key", "k1")):        "k1",
		new(header("Authorization", "Bearer "+secret, "Webhook-Id", "msg_1", "Idempotency-Key", "ignored")): "msg_1",
	} {
		if got, err := v.Verify(*h, nil, noon); err != nil || got.ID != id {
			t.Errorf("%v, %v, want %q", got, err, id)
		}
	}
	for _, bad := range []string{"", "Bearer", "Bearer ", "Basic " + secret, "Bearer " + secret + " ", "Bearer  " + secret, secret} {
		if _, err := v.Verify(header("Authorization", bad), nil, noon); !errors.Is(err, ErrSignature) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestBadSecrets(t *testing.T) {
	long := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))
	errs := map[string]error{}
	for name, secrets := range map[string][]string{"none": {}, "short": {"whsec_c2hvcnQ="}, "long": {long}, "not base64": {"whsec_***"}, "many": make([]string, MaxSecrets+1)} {
		_, errs["standard, "+name] = Standard(secrets...)
	}
	for name, secrets := range map[string][]string{"none": {}, "short": {"15 bytes of text"[:15]}, "the second": {"a secret of 16 bytes or more", ""}} {
		_, errs["github, "+name] = GitHub(secrets...)
		_, errs["stripe, "+name] = Stripe(secrets...)
		_, errs["bearer, "+name] = Bearer(secrets...)
	}
	for name, err := range errs {
		if e, ok := errors.AsType[*sojourn.Error](err); !ok || e.Code != sojourn.CodeInvalid || e.Field != "secrets" {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
}

// FuzzHeaders sends arbitrary headers to all verifiers: only signed messages are accepted.
func FuzzHeaders(f *testing.F) {
	const secret, body = "a secret of 16 bytes or more", `{"id":"evt_1"}`
	stamp := strconv.FormatInt(noon.Unix(), 10)
	good := map[string]string{"standard": sign(f, newSecret, "msg_1", noon, body).Get("Webhook-Signature"), "github": "sha256=" + hexMAC(secret, body),
		"stripe": "t=" + stamp + ",v1=" + hexMAC(secret, stamp+"."+body), "bearer": "Bearer " + secret}
	key, public := pair("fuzz")
	good["public"] = signPrivately(key, "msg_1", noon, body).Get("Webhook-Signature")
	for _, g := range good {
		f.Add("msg_1", stamp, g, body)
	}
	f.Add("msg_1", stamp, good["standard"], body+"x")
	f.Add("msg_1.1", stamp, good["standard"]+" "+good["standard"], body)
	f.Add("msg_1", "-"+stamp, "v1, v1a,, v1,=", "")
	f.Add("", "999999999999", "t=,v1=,t=1,v1=zz", "{")
	verifiers := map[string]Verifier{"standard": must[*Signed](f)(Standard(newSecret)), "public": must[*Signed](f)(Standard(public)), "github": must[*Signed](f)(GitHub(secret)),
		"stripe": must[*Signed](f)(Stripe(secret)), "bearer": must[Verifier](f)(Bearer(secret))}
	f.Fuzz(func(t *testing.T, id, at, signature, sent string) {
		h := header("Webhook-Id", id, "Webhook-Timestamp", at, "Webhook-Signature", signature, "X-Hub-Signature-256", signature,
			"Stripe-Signature", signature, "Authorization", signature)
		for name, v := range verifiers {
			got, err := v.Verify(h, []byte(sent), noon)
			if err != nil {
				if got != (Verified{}) {
					t.Errorf("%s: refused, and yet %v", name, got)
				}
				continue
			}
			if name != "bearer" && sent != body {
				t.Errorf("%s: %q was never signed: %q", name, sent, fmt.Sprint(h))
			}
			if (name == "standard" || name == "public") && (id != "msg_1" || at != stamp) {
				t.Errorf("%q at %q was never signed", id, at)
			}
			if name == "bearer" && !strings.HasSuffix(signature, secret) {
				t.Errorf("%q is not the secret", signature)
			}
		}
	})
}
