// Command ask-a-person shows a job that asks a person on a page of its own: the person gets a link,
// sees the question with its choices, presses a button, and later sees the chosen answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/askpage"
	"github.com/sojourn-queue/sojourn/store/ask"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var pay = sojourn.Kind[string]{Name: "pay"}

// handler asks by mail, and waits for up to two days.
func handler(mail chan<- string) func(context.Context, *sojourn.Job, string) error {
	return func(ctx context.Context, job *sojourn.Job, what string) error {
		if job.Response == nil {
			link, err := ask.URL(job, 48*time.Hour)
			if err != nil {
				return err
			}
			mail <- link
			return ask.With(ask.Question{
				Title:   "May we pay for " + what + "?",
				Text:    "The invoice is due on Friday.\n\nWithout your answer, nothing is paid.",
				Choices: []ask.Choice{{Value: "yes", Label: "Pay", Style: ask.Primary}, {Value: "no", Label: "Do not pay", Style: ask.Danger}},
				Comment: "A note for accounting",
				Brand:   ask.Brand{Name: "Northwind Trading", Color: "#663399"},
			}, sojourn.Await(48*time.Hour))
		}
		answer, err := ask.AnswerOf(job.Response)
		if err != nil {
			return sojourn.Again(err) // somebody has answered by another way: ask again
		}
		if answer.Value != "yes" {
			return sojourn.Abort(sojourn.WithReason("rejected", errors.New("the answer is no")))
		}
		return job.SetResult("paid for " + what + ": " + answer.Comment)
	}
}

// serve serves the pages on a port of their own.
func serve(client *sojourn.Client) (base string, err error) {
	mux := http.NewServeMux()
	mux.Handle("/sojourn/ask/", http.StripPrefix("/sojourn", askpage.New(client, askpage.Options{})))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { log.Fatal(http.Serve(listener, mux)) }()
	return "http://" + listener.Addr().String() + "/sojourn", nil
}

var (
	formToken = regexp.MustCompile(`name="form" value="([^"]*)"`)
	sentence  = regexp.MustCompile(`(?s)<div class="outcome.*?<p>(.*?)</p>`)
	button    = regexp.MustCompile(`<button [^>]*>([^<]*)`)
	tag       = regexp.MustCompile(`<[^>]*>`)
)

// browser is what a person uses. It runs no JavaScript.
type browser struct{ page string }

// open opens a link.
func (b *browser) open(link string) (string, error) { return b.tell(http.Get(link)) }

// press presses a button of the page that is open.
func (b *browser) press(link, choice, comment string) (string, error) {
	token := formToken.FindStringSubmatch(b.page)
	if token == nil {
		return "", errors.New("the page has no form")
	}
	before := b.page
	said, err := b.tell(http.PostForm(link, url.Values{"form": {token[1]}, "choice": {choice}, "comment": {comment}}))
	b.page = before // for a second click
	return said, err
}

// tell reads a page: its status, and its buttons or how the question ended.
func (b *browser) tell(got *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer got.Body.Close()
	page, err := io.ReadAll(got.Body)
	b.page = string(page)
	said := fmt.Sprint(got.StatusCode)
	for _, found := range append(button.FindAllStringSubmatch(b.page, -1), sentence.FindAllStringSubmatch(b.page, -1)...) {
		said += " [" + strings.TrimSpace(tag.ReplaceAllString(found[1], "")) + "]"
	}
	return said, err
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:")
	if err != nil {
		return err
	}
	defer client.Close()
	base, err := serve(client)
	if err != nil {
		return err
	}
	mail := make(chan string, 1)
	w := worker.New(client, worker.Options{RespondURL: base})
	worker.Handle(w, pay, handler(mail))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	job := pay.New("the stand at the fair")
	if _, err := client.Enqueue(ctx, job); err != nil {
		return err
	}
	link := <-mail
	if err := waits(ctx, client, job.ID); err != nil {
		return err
	}
	b := &browser{}
	for _, step := range []struct {
		who string
		do  func() (string, error)
	}{
		{"the mail program follows the link", func() (string, error) { return b.open(link) }},
		{"the person opens the link", func() (string, error) { return b.open(link) }},
		{"and presses a button", func() (string, error) { return b.press(link, "yes", "cost centre 12") }},
		{"a double click", func() (string, error) { return b.press(link, "yes", "cost centre 12") }},
		{"another button, in an old tab", func() (string, error) { return b.press(link, "no", "") }},
		{"a look the next day", func() (string, error) { return b.open(link) }},
		{"a link that somebody made up", func() (string, error) { return b.open(base + "/ask/1.1.1.0.xyz") }},
	} {
		said, err := step.do()
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", step.who, said)
	}
	done, err := client.Wait(ctx, job.ID)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", done.State, done.Result)
	stop()
	return <-stopped
}

// waits returns once the job waits: the handler mails the link before its question is stored.
func waits(ctx context.Context, client *sojourn.Client, id sojourn.ID) error {
	for ctx.Err() == nil {
		job, err := client.Get(ctx, id)
		if err != nil || job.State == sojourn.Awaiting {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}
