package export

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/internal/webhooksign"
	"github.com/sojourn-queue/sojourn/store/archive"
)

// webhook sends each batch as one request, signed by Standard Webhooks.
type webhook struct {
	url, archive string
	key          []byte
	client       *http.Client
}

// sent is the body of a request.
type sent struct {
	Archive string        `json:"archive"`
	Jobs    []archive.Job `json:"jobs"`
}

const sendWithin = 10 * time.Second

// openWebhook reads the secret. Its errors do not contain it.
func openWebhook(o Options, a archive.Status) (*webhook, error) {
	w := &webhook{url: a.To, archive: a.Name, client: o.Client}
	if w.client == nil {
		w.client = &http.Client{Timeout: sendWithin, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	text := ""
	if name, ok := strings.CutPrefix(a.Secret, "env:"); ok {
		text = os.Getenv(name)
	} else {
		b, err := os.ReadFile(strings.TrimPrefix(a.Secret, "file:"))
		if err != nil {
			return nil, fmt.Errorf("the secret of archive %s: %w", a.Name, err)
		}
		text = strings.TrimSpace(string(b))
	}
	var ok bool
	if w.key, ok = webhooksign.Key(text); !ok {
		return nil, finalError{sojourn.Conflict("the secret of archive %s at %s is not \"whsec_\" with the base64 of 24 to 64 bytes; set it in the program that exports", a.Name, a.Secret)}
	}
	return w, nil
}

func (*webhook) recover(archive.Lease) error { return nil }
func (*webhook) idle() error                 { return nil }
func (*webhook) close()                      {}

// export sends a batch. Only a status of 2xx is success. The same batch has the same id.
func (w *webhook) export(ctx context.Context, jobs []archive.Job, _ *archive.Record) error {
	body, err := jsonform.Marshal(sent{w.archive, jobs})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "sojourn")
	webhooksign.Sign(r.Header, [][]byte{w.key}, w.id(jobs), body, time.Now())
	answer, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the webhook of archive %s answered with status %d", w.archive, answer.StatusCode)
	}
	return nil
}

func (w *webhook) id(jobs []archive.Job) string {
	h := sha256.New()
	fmt.Fprintln(h, w.archive)
	for _, j := range jobs {
		fmt.Fprintln(h, j.IdempotencyKey())
	}
	return "archive_" + hex.EncodeToString(h.Sum(nil)[:16])
}
