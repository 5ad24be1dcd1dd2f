// Package ask gives a wait a question for a person, who answers it on a page of their own:
//
//	if job.Response == nil {
//		link, err := ask.URL(job, 48*time.Hour)
//		…
//		mail(link)
//		return ask.With(question, sojourn.Await(48*time.Hour))
//	}
//	answer, err := ask.AnswerOf(job.Response)
//
// The page is that of package httpapi/askpage, which "sojourn serve" has at /ask/TOKEN. It shows
// the question of exactly the wait that the capability in the link names, and later its answer.
package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
)

// Bounds of a question and of its answer.
const (
	MaxQuestion = 16 << 10 // bytes of a question as JSON
	MaxTitle    = 200      // characters
	MaxLabel    = 100      // characters of a label or a name
	MaxChoices  = 20
	MaxComment  = 2000 // characters of the comment in an answer
)

// Source is the source of the responses that the page sends.
const Source = "page"

// Question is what a person is asked. All of it is plain text.
type Question struct {
	Title   string   `json:"title"`
	Text    string   `json:"text,omitempty"` // an empty line begins a paragraph
	Choices []Choice `json:"choices"`        // 1 to MaxChoices
	// Comment is the label of a field in which the person may write; empty: no field.
	Comment string `json:"comment,omitempty"`
	Brand   Brand  `json:"brand,omitzero"`
}

// Choice is a button.
type Choice struct {
	Value string `json:"value"`           // in the answer; 1 to MaxLabel characters
	Label string `json:"label,omitempty"` // on the button; empty: the value
	Style Style  `json:"style,omitempty"`
}

// Text is the text on the button.
func (c Choice) Text() string {
	if c.Label == "" {
		return c.Value
	}
	return c.Label
}

// Style is how a button looks.
type Style string

// The styles of buttons.
const (
	Plain   Style = ""
	Primary Style = "primary" // in the colour of the brand
	Danger  Style = "danger"
)

// Brand is who asks.
type Brand struct {
	Name  string `json:"name,omitempty"`
	Color string `json:"color,omitempty"` // #rrggbb; empty: that of the page
}

// Choice returns the choice with a value, nil if there is none.
func (q *Question) Choice(value string) *Choice {
	for i := range q.Choices {
		if q.Choices[i].Value == value {
			return &q.Choices[i]
		}
	}
	return nil
}

// Validate checks texts, choices and the colour. The error is an *Error with CodeInvalid or
// CodeTooLarge.
func (q Question) Validate() error {
	for _, t := range []struct {
		field, text string
		min, max    int
		lines       bool
	}{
		{"ask.title", q.Title, 1, MaxTitle, false}, {"ask.text", q.Text, 0, MaxQuestion, true},
		{"ask.comment", q.Comment, 0, MaxLabel, false}, {"ask.brand.name", q.Brand.Name, 0, MaxLabel, false},
	} {
		if err := validText(t.field, t.text, t.min, t.max, t.lines); err != nil {
			return err
		}
	}
	if n := len(q.Choices); n < 1 || n > MaxChoices {
		return sojourn.Invalid("ask.choices", "%d choices are out of range; give 1 to %d", n, MaxChoices)
	}
	for i, c := range q.Choices {
		if err := q.validChoice(i, c); err != nil {
			return err
		}
	}
	if !validColor(q.Brand.Color) {
		return sojourn.Invalid("ask.brand.color", "%.64q is not a colour; use #rrggbb, such as #0b6e6e", q.Brand.Color)
	}
	b, err := json.Marshal(q)
	if err != nil {
		return sojourn.Invalid("ask", "cannot be encoded: %v", err)
	}
	if len(b) > MaxQuestion {
		return sojourn.TooLarge("ask", len(b), MaxQuestion)
	}
	return nil
}

func (q Question) validChoice(i int, c Choice) error {
	field := fmt.Sprintf("ask.choices[%d]", i)
	if err := validText(field+".value", c.Value, 1, MaxLabel, false); err != nil {
		return err
	}
	if err := validText(field+".label", c.Label, 0, MaxLabel, false); err != nil {
		return err
	}
	if c.Style != Plain && c.Style != Primary && c.Style != Danger {
		return sojourn.Invalid(field+".style", "%.64q is not a style; use primary or danger, or leave it out", string(c.Style))
	}
	if q.Choice(c.Value) != &q.Choices[i] {
		return sojourn.Invalid(field+".value", "%.64q is the value of another choice too; give each choice a value of its own", c.Value)
	}
	return nil
}

// validText refuses control characters, and those that change the direction of the text after them:
// a page must not show another question than the one that was written.
func validText(field, text string, min, max int, lines bool) error {
	if !utf8.ValidString(text) {
		return sojourn.Invalid(field, "is not UTF-8 text")
	}
	if n := utf8.RuneCountInString(text); n > max || strings.TrimSpace(text) == "" && (min > 0 || n > 0) {
		return sojourn.Invalid(field, "has %d characters; allowed are %d to %d, not only spaces", n, min, max)
	}
	for i, r := range text {
		if lines && (r == '\n' || r == '\r' || r == '\t') {
			continue
		}
		if r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return sojourn.Invalid(field, "has the control character %U at byte %d; remove it", r, i)
		}
	}
	return nil
}

func validColor(c string) bool {
	if c == "" {
		return true
	}
	if len(c) != 7 || c[0] != '#' {
		return false
	}
	return strings.Trim(c[1:], "0123456789abcdefABCDEF") == ""
}

// Parse reads a question that was encoded as JSON, and validates it.
func Parse(b []byte) (Question, error) {
	if len(b) > MaxQuestion {
		return Question{}, sojourn.TooLarge("ask", len(b), MaxQuestion)
	}
	var q Question
	if err := json.Unmarshal(b, &q); err != nil {
		return Question{}, sojourn.Invalid("ask", "is not a question: %v", err)
	}
	return q, q.Validate()
}

// ValidOutcome checks the question of an outcome.
func ValidOutcome(o *sojourn.Outcome) error {
	switch {
	case len(o.Ask) == 0:
		return nil
	case o.Type != sojourn.OutcomeAwait:
		return sojourn.Invalid("ask", "is of the outcome await, not of %.64q", string(o.Type))
	case o.Wait.Mode == sojourn.WaitAll:
		return sojourn.Invalid("ask", "a person's answer has no key, so it cannot answer a wait for all of several keys; use await or any")
	}
	_, err := Parse(o.Ask)
	return err
}

// With gives a wait a question. It takes the result of Await, AwaitAny or WithBeat. The store keeps
// the question as long as the job, so that the page can show it beside its answer.
func With(q Question, await error) error {
	waiting, ok := errors.AsType[interface {
		error
		Ask(question []byte) error
	}](await)
	out := sojourn.OutcomeOf(await)
	if !ok || out.Type != sojourn.OutcomeAwait {
		if _, ours := errors.AsType[*sojourn.Error](await); ours {
			return await // what AwaitAny says of its keys
		}
		return sojourn.Invalid("ask", "this error is not a wait; pass ask.With the result of Await, AwaitAny or WithBeat")
	}
	if err := q.Validate(); err != nil {
		return err
	}
	b, err := json.Marshal(q)
	if err != nil {
		return sojourn.Invalid("ask", "cannot be encoded: %v", err)
	}
	out.Ask = b
	if err := ValidOutcome(&out); err != nil {
		return err
	}
	return waiting.Ask(b)
}

// URL returns the link to the page with the question of the next wait of this job, or of the
// current one. It is Job.RespondURL with /ask/ in place of /respond/, and like that a secret:
// whoever has it may answer. The page must be served at worker.Options.RespondURL.
func URL(job *sojourn.Job, within time.Duration) (string, error) {
	link, err := job.RespondURL(within)
	if err != nil {
		return "", err
	}
	at := strings.LastIndex(link, "/respond/")
	return link[:at] + "/ask/" + link[at+len("/respond/"):], nil
}

// Answer is the body of the response that the page sends.
type Answer struct {
	Value   string `json:"value"` // of the choice
	Comment string `json:"comment,omitempty"`
}

// AnswerOf reads the answer of a response. CodeInvalid if it is not one, as when somebody has
// answered the job by its key: compare Value with the choices.
func AnswerOf(r *sojourn.Response) (Answer, error) {
	if r == nil {
		return Answer{}, sojourn.Invalid("response", "is nil; the job has no answer yet")
	}
	var a Answer
	if err := json.Unmarshal(r.Body, &a); err != nil || a.Value == "" {
		return Answer{}, sojourn.Invalid("body", "the response has no value; it is not an answer of the page")
	}
	return a, nil
}
