// Package askpage is the page on which a person answers the question of a job, see package ask.
//
//	page := askpage.New(client, askpage.Options{})
//	mux.Handle("/sojourn/ask/", http.StripPrefix("/sojourn", page))
//
// Whoever has the link may see the question and answer it once. A GET answers nothing, so programs
// that follow links are harmless. The page needs no JavaScript, and loads nothing from elsewhere.
package askpage

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/connlimit"
	"github.com/sojourn-queue/sojourn/store/ask"
)

// Path is below which the pages are: Path and the capability.
const Path = "/ask/"

const (
	timeout     = 10 * time.Second // for the form to arrive, and then for the store
	maxForm     = 64 << 10         // bytes of a form
	maxInFlight = 100
)

// Options are settings of the page.
type Options struct {
	// Brand is shown where the question has none.
	Brand  ask.Brand
	Logger *slog.Logger // failures of the store, never with links; default none
}

// handler serves the pages of one store.
type handler struct {
	client *sojourn.Client
	o      Options
	log    *slog.Logger
	room   chan struct{} // requests that the store is asked for
}

// New makes the handler of the paths that begin with Path. It is safe for concurrent use. It panics
// if the colour of o.Brand is not of the form #rrggbb.
func New(c *sojourn.Client, o Options) http.Handler {
	if err := (ask.Question{Title: "x", Choices: []ask.Choice{{Value: "x"}}, Brand: o.Brand}).Validate(); err != nil {
		panic("askpage: " + err.Error())
	}
	h := &handler{client: c, o: o, log: o.Logger, room: make(chan struct{}, maxInFlight)}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	return h
}

// plausible reports whether a text has the form of a capability, which is also that of a relative
// link to the page itself.
func plausible(token string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return len(token) <= sojourn.MaxKey && strings.Count(token, ".") >= 4 && token[0] != '.' && strings.Trim(token, letters+".") == ""
}

// ServeHTTP answers one request. The path is read as it was sent, so that nothing is redirected.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, below := strings.CutPrefix(r.URL.EscapedPath(), Path)
	if !below || !plausible(token) {
		h.show(w, http.StatusNotFound, unknown())
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.get(w, r, token)
	case http.MethodPost:
		h.post(w, r, token)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		h.show(w, http.StatusMethodNotAllowed, content{Heading: "This does not work", Sentence: "Open the link in a browser."})
	}
}

// begin takes one of the places for requests that the store is asked for, and bounds its time.
func (h *handler) begin(ctx context.Context) (context.Context, func(), error) {
	select {
	case h.room <- struct{}{}:
	default:
		return ctx, func() {}, &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: "too many requests are being answered"}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, func() { cancel(); <-h.room }, nil
}

// get shows the question, or how it ended.
func (h *handler) get(w http.ResponseWriter, r *http.Request, token string) {
	ctx, end, err := h.begin(r.Context())
	defer end()
	var s ask.Status
	if err == nil {
		s, err = h.read(ctx, token)
	}
	if err != nil {
		h.fail(w, err, token, false)
		return
	}
	status, c := page(s, token)
	h.show(w, status, c)
}

func (h *handler) read(ctx context.Context, token string) (ask.Status, error) {
	s, err := ask.Read(ctx, h.client, token)
	connlimit.SetAuthenticated(ctx, err == nil)
	return s, err
}

// post answers the question. A repeat of the answer that is stored leads to the same page, and
// another answer changes nothing: both have one message id.
func (h *handler) post(w http.ResponseWriter, r *http.Request, token string) {
	if err := h.readForm(w, r, token); err != nil {
		h.show(w, http.StatusForbidden, content{Heading: "Your answer was not stored", Sentence: "The form did not come from this page, or not completely.",
			Advice: "Open the link again, and choose once more.", Again: token})
		return
	}
	ctx, end, err := h.begin(context.WithoutCancel(r.Context())) // who has pressed the button and leaves has answered
	defer end()
	var s ask.Status
	if err == nil {
		s, err = h.read(ctx, token)
	}
	if err != nil {
		h.fail(w, err, token, false)
		return
	}
	answer, problem := answerOf(s, r)
	if problem != "" {
		_, c := page(s, token)
		c.Notice, c.Comment = problem, answer.Comment
		h.show(w, http.StatusBadRequest, c)
		return
	}
	if s.State == ask.Open {
		err := h.respond(ctx, token, answer)
		if err != nil && !errors.Is(err, sojourn.ErrConflict) {
			h.fail(w, err, token, true)
			return
		}
		if s, err = h.read(ctx, token); err != nil {
			h.fail(w, err, token, true)
			return
		}
	}
	status, c := page(s, token)
	switch {
	case s.State == ask.Answered && s.Answer != nil && *s.Answer == answer:
		w.Header().Set("Location", token) // relative, because the path of the mount is not known
		h.show(w, http.StatusSeeOther, c)
		return
	case s.State == ask.Answered:
		status, c.Notice = http.StatusConflict, "Nothing was changed: the question had been answered before."
	default:
		c.Notice = "Your answer was not accepted."
	}
	h.show(w, status, c)
}

// respond stores the answer. The message id is that of the link, so that one link stores at most
// one answer.
func (h *handler) respond(ctx context.Context, token string, a ask.Answer) error {
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(token))
	_, err = h.client.Respond(ctx, &sojourn.Response{Token: token, Source: ask.Source, MessageID: "page-" + hex.EncodeToString(sum[:16]), Body: body, ContentType: "application/json"})
	return err
}

// formToken is in the form of the page. It is made of the capability: only a page that was shown
// has it, and every process of every machine can check it.
func formToken(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("sojourn ask form"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

var errForm = errors.New("the form did not come from this page, or not completely")

// readForm reads the form, and refuses one of another site.
func (h *handler) readForm(w http.ResponseWriter, r *http.Request, token string) error {
	if err := new(http.CrossOriginProtection).Check(r); err != nil {
		return err
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Now().Add(timeout)) // not every server can
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return err
	}
	_ = out.SetReadDeadline(time.Time{})
	if !hmac.Equal([]byte(r.PostForm.Get("form")), []byte(formToken(token))) {
		return errForm
	}
	return nil
}

// answerOf reads the answer of a form. problem says what to change.
func answerOf(s ask.Status, r *http.Request) (a ask.Answer, problem string) {
	a = ask.Answer{Value: r.PostForm.Get("choice")}
	q := s.Question
	if len(q.Choices) == 0 { // no details are shown any more
		return a, ""
	}
	if q.Comment != "" { // a browser sends \r\n
		a.Comment = strings.TrimSpace(strings.ReplaceAll(r.PostForm.Get("comment"), "\r\n", "\n"))
	}
	switch n := utf8.RuneCountInString(a.Comment); {
	case !utf8.ValidString(a.Comment):
		a.Comment, problem = "", "The text has characters that cannot be stored. Write it again."
	case n > ask.MaxComment:
		problem = "The text is too long. Shorten it, and choose again."
	case q.Choice(a.Value) == nil:
		problem = "Choose one of the answers."
	}
	return a, problem
}

// fail shows an error. sent says that an answer may have been stored.
func (h *handler) fail(w http.ResponseWriter, err error, token string, sent bool) {
	if errors.Is(err, sojourn.ErrNotFound) {
		h.show(w, http.StatusNotFound, unknown())
		return
	}
	h.log.Warn("page of a question: the store does not answer", "error", err)
	w.Header().Set("Retry-After", "5")
	c := content{Heading: "Please try again", Sentence: "The page cannot be shown at the moment.", Again: token}
	if sent {
		c.Sentence = "It is not known whether your answer was stored."
		c.Advice = "Load the page again: it shows your answer, or asks once more."
	}
	h.show(w, http.StatusServiceUnavailable, c)
}
