package sourcecmd

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/sourcefile"
	"github.com/sojourn-queue/sojourn/source/webhook"
)

// What source test says of the signature of a webhook.
const (
	signatureValid     = "valid"
	signatureUnchecked = "not given, so not checked"
)

// webhookTest says what a webhook makes of a request. The signature is checked if there is one.
func (a *app) webhookTest(ctx context.Context, s sourcefile.Source, m source.Message, now time.Time) error {
	if m.Topic != "" || m.Key != "" {
		return sojourn.Invalid("topic", "a webhook has no topic and no key; give headers with --header")
	}
	if s.Options.Match == nil {
		return sojourn.Invalid("source", "%q has no rules to test: the sender names kind and key in the path", s.Options.Name)
	}
	h := http.Header{}
	for name, value := range m.Headers {
		h.Set(name, value)
	}
	if m.ContentType != "" {
		h.Set("Content-Type", m.ContentType)
	}
	e := webhook.Endpoint{Name: s.Options.Name}
	known := webhook.Verified{ID: cmp.Or(h.Get("Webhook-Id"), h.Get("Idempotency-Key"), m.ID)}
	signature := signatureUnchecked
	if h.Get(s.Signature) != "" {
		var err error
		if e, err = s.Endpoint(); err != nil {
			return err
		}
		if known, err = e.Verify.Verify(h, m.Body, now); err != nil {
			return a.refusedWebhook(err)
		}
		signature = signatureValid
	}
	v, r := judge(ctx, s, e.Message(h, m.Body, known))
	v.Signature = signature
	if r != nil && !r.Park && !slices.Contains(s.Kinds, "*") && !slices.Contains(s.Kinds, r.Kind) {
		v.Outcome, v.Reason, v.Error = "refused", "kind_not_allowed", "add the kind to kinds"
	}
	return a.sayVerdict(v, r)
}

func (a *app) refusedWebhook(err error) error {
	v := verdict{Outcome: "refused", Reason: "bad_signature", Error: "the signature does not match headers and body under any secret of the file"}
	if errors.Is(err, webhook.ErrStale) {
		v.Reason, v.Error = "stale", "the signature is valid, but its time is too far from now; give the time of the sample with --at"
	}
	return a.sayVerdict(v, nil)
}
