// Command approval-link shows a job that waits for a person, who gets a link by mail, sees a page
// of the program's own and presses a button.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source/webhook"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var pay = sojourn.Kind[string]{Name: "pay", Policy: sojourn.Policy{Backoff: sojourn.Backoff{First: -1}}} // no pause: the next letter goes out at once

// handler asks by mail. The link is good for this attempt alone, and no longer than two days.
func handler(mail chan<- string) func(context.Context, *sojourn.Job, string) error {
	return func(ctx context.Context, job *sojourn.Job, what string) error {
		if job.Response == nil {
			link, err := job.RespondURL(48 * time.Hour)
			if err != nil {
				return err
			}
			fmt.Printf("letter %d: may I pay for %s?\n", job.Attempt, what)
			mail <- strings.Replace(link, "/sojourn/respond/", "/approve/", 1) // a page first: only a POST answers, so that nobody answers by looking
			if job.Attempt == 1 {
				return sojourn.Await(300 * time.Millisecond) // short, so that this program ends soon
			}
			return sojourn.Await(48 * time.Hour)
		}
		form, err := url.ParseQuery(string(job.Response.Body))
		if err != nil {
			return sojourn.Again(err)
		}
		if form.Get("answer") != "yes" {
			return sojourn.Abort(sojourn.WithReason("rejected", errors.New("the answer is no")))
		}
		return job.SetResult("paid for " + what)
	}
}

var page = template.Must(template.New("").Parse(`<!doctype html><title>May I pay?</title>
<form method="post" action="/sojourn/respond/{{.}}">
<button name="answer" value="yes">Yes</button> <button name="answer" value="no">No</button></form>`))

// serve answers on a port of its own: the page, and the receiver beside it.
func serve(client *sojourn.Client) (base string, err error) {
	receiver, err := webhook.New(client, webhook.Options{}) // no senders are known: links are all that it takes
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.Handle("/sojourn/", http.StripPrefix("/sojourn", receiver))
	mux.HandleFunc("GET /approve/{token}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer") // the page's own address is a secret too
		if err := page.Execute(w, r.PathValue("token")); err != nil {
			log.Print(err)
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { log.Fatal(http.Serve(listener, mux)) }()
	return "http://" + listener.Addr().String(), nil
}

// press is what a person does: open the page, press a button.
func press(link, answer string) (string, error) {
	seen, err := http.Get(link)
	if err != nil {
		return "", err
	}
	html, err := io.ReadAll(seen.Body)
	seen.Body.Close()
	if err != nil {
		return "", err
	}
	if t := seen.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/html") {
		return "", fmt.Errorf("a browser shows no page of the type %q", t)
	}
	_, action, _ := strings.Cut(string(html), `action="`)
	action, _, _ = strings.Cut(action, `"`)
	form, err := seen.Request.URL.Parse(action)
	if err != nil {
		return "", err
	}
	said, err := http.PostForm(form.String(), url.Values{"answer": {answer}})
	if err != nil {
		return "", err
	}
	defer said.Body.Close()
	var got struct{ Outcome, Code string }
	err = json.NewDecoder(said.Body).Decode(&got)
	return fmt.Sprintf("%d %s%s", said.StatusCode, got.Outcome, got.Code), err
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
	mail := make(chan string, 10)
	w := worker.New(client, worker.Options{RespondURL: base + "/sojourn"})
	worker.Handle(w, pay, handler(mail))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	ticket := pay.New("a train ticket")
	if _, err := client.Enqueue(ctx, ticket); err != nil {
		return err
	}
	first, second := <-mail, <-mail // nobody answers the first letter in time, so the attempt ends
	if err := click("  no, by letter 1:", first, "no"); err != nil {
		return err
	}
	follow, err := http.Get(strings.Replace(second, "/approve/", "/sojourn/respond/", 1))
	if err != nil {
		return err
	}
	follow.Body.Close()
	fmt.Println("  a program that follows links:", follow.StatusCode)
	if err := click("  yes, by letter 2:", second, "yes"); err != nil {
		return err
	}
	job, err := client.Wait(ctx, ticket.ID)
	if err != nil {
		return err
	}
	fmt.Printf("  %s: %s\n", job.State, job.Result)
	if err := click("  no, by letter 2:", second, "no"); err != nil {
		return err
	}
	if err := click("  yes, by a link that somebody made up:", base+"/approve/1.1.1.xyz", "yes"); err != nil {
		return err
	}
	stop()
	return <-stopped
}

func click(what, link, answer string) error {
	got, err := press(link, answer)
	fmt.Println(what, got)
	return err
}
