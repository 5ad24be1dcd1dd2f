package askpage

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn/store/ask"
)

// defaultColor is that of a question without a colour.
const defaultColor = "#0b6e6e"

var (
	//go:embed page.html
	source string
	//go:embed page.css
	styleSheet string

	pageTemplate = template.Must(template.New("").Parse(source))
)

// content is what the page shows.
type content struct {
	Heading, Notice string
	Text            []string // paragraphs
	brand           ask.Brand

	Form         string // the token of the form; empty: no form
	CommentLabel string
	Choices      []ask.Choice
	Until        *time.Time

	Sentence string // what has become of the question
	Answer   string
	Comment  string // of the answer, or in the form
	Verb     string
	At       *time.Time
	Good     bool
	Advice   string
	Again    string // link to the page itself

	CommentMax int
	Brand      string
	Nonce      string
	Style      template.CSS
}

// unknown is the page of every link of which nothing is known.
func unknown() content {
	return content{Heading: "This link does not work", Sentence: "No question belongs to this link.",
		Advice: "Check that you have copied all of it. A question is removed some time after its end."}
}

// page is the page of a question, with its status.
func page(s ask.Status, token string) (int, content) {
	q := s.Question
	c := content{Heading: q.Title, Text: paragraphs(q.Text), brand: q.Brand}
	if !s.EndedAt.IsZero() {
		at := s.EndedAt.UTC()
		c.At, c.Verb = &at, "Ended"
	}
	switch s.State {
	case ask.Open:
		c.Form, c.CommentLabel, c.Choices = formToken(token), q.Comment, q.Choices
		if until := s.Until.UTC(); !s.Until.IsZero() {
			c.Until = &until
		}
		return http.StatusOK, c
	case ask.Answered:
		c.Sentence, c.Verb, c.Good = "This question was answered with this link.", "Answered", true
		if s.Answer != nil {
			c.Sentence, c.Answer, c.Comment = "The answer is:", q.Choice(s.Answer.Value).Text(), s.Answer.Comment
		}
		c.Advice = "It cannot be changed with this link."
		return http.StatusOK, c
	case ask.NotAsked:
		return http.StatusNotFound, content{Heading: "Nothing is asked here yet", Sentence: "The question of this link is not ready.",
			Advice: "If you have just got the link, wait a few seconds.", Again: token}
	case ask.Elsewhere:
		c.Sentence, c.Verb = "This question was answered in another way.", "Answered"
		c.Advice = "You need not do anything."
	case ask.Expired:
		c.Sentence, c.Advice = "The time to answer this question is over.", "If your answer is still needed, ask for a new link."
	case ask.Replaced:
		c.Sentence, c.Advice = "This link is out of date.", "If you are still asked, there is a newer link: use that one."
	case ask.Cancelled:
		c.Sentence, c.Verb, c.Advice = "This question was withdrawn.", "Withdrawn", "You need not do anything."
	default:
		c.Sentence, c.Advice = "This question is closed.", "You need not do anything."
	}
	return http.StatusGone, c
}

// paragraphs divides a text at empty lines.
func paragraphs(text string) (out []string) {
	for p := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n") {
		if p = strings.Trim(p, "\n"); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// show writes a page. The Referrer-Policy is not no-referrer: with that, browsers send "Origin:
// null" with the form, which the check against other sites must refuse.
func (h *handler) show(w http.ResponseWriter, status int, c content) {
	brand := c.brand
	if brand.Name == "" {
		brand.Name = h.o.Brand.Name
	}
	if brand.Color == "" {
		brand.Color = h.o.Brand.Color
	}
	c.Brand, c.Nonce, c.CommentMax = brand.Name, rand.Text(), ask.MaxComment
	c.Style = style(brand.Color)
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, c); err != nil {
		panic(err) // of strings and times
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+c.Nonce+"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Robots-Tag", "noindex, nofollow")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a person whose page does not arrive loads it again
}

// style is the style sheet with a colour. It is made of the numbers of the colour, so that nothing
// else can come into it.
func style(color string) template.CSS {
	n, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 24)
	if err != nil || len(color) != 7 {
		n, _ = strconv.ParseUint(defaultColor[1:], 16, 24)
	}
	on := "#ffffff"
	if l := luminance(n); (l+0.05)/0.05 > 1.05/(l+0.05) { // black has more contrast
		on = "#000000"
	}
	return template.CSS(fmt.Sprintf(styleSheet, fmt.Sprintf("#%06x", n), on))
}

// luminance is the relative luminance of WCAG 2.
func luminance(color uint64) float64 {
	channel := func(shift int) float64 {
		v := float64(color>>shift&0xff) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
}
