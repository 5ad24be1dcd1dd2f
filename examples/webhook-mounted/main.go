// Command webhook-mounted shows the receiver of signed webhooks in a program that has a server of
// its own.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/webhook"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// In a real program the secret comes from the sender, by the environment or a file.
var secret = []byte("a secret that the bank has given")

var charge = sojourn.Kind[string]{Name: "charge", Key: func(order string) string { return "order-" + order }}

// match says which job a message of the bank answers. What it does not set is taken from the
// message.
func match(_ context.Context, m *source.Message) (*sojourn.Response, error) {
	var event struct {
		Type, Reference string
	}
	if err := json.Unmarshal(m.Body, &event); err != nil {
		return nil, err // parked in the inbox
	}
	switch event.Type {
	case "charge.paid":
		return &sojourn.Response{Kind: "charge", Key: event.Reference}, nil
	case "charge.failed":
		return &sojourn.Response{Kind: "charge", Key: event.Reference, Failed: true, Reason: "bank"}, nil
	}
	return nil, nil // of no interest
}

// serve mounts the receiver beside what the program serves anyway.
func serve(client *sojourn.Client) (base string, err error) {
	bank, err := webhook.Standard("whsec_" + base64.StdEncoding.EncodeToString(secret))
	if err != nil {
		return "", err
	}
	receiver, err := webhook.New(client, webhook.Options{NoCapabilities: true, Endpoints: []webhook.Endpoint{
		{Name: "bank", Verify: bank, Match: match, Kinds: []string{"charge"}},
	}})
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "a shop") })
	mux.Handle("/answers/", http.StripPrefix("/answers", receiver))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { log.Fatal(http.Serve(listener, mux)) }()
	return "http://" + listener.Addr().String(), nil
}

// send is the bank: it signs as Standard Webhooks say.
func send(url, id string, at time.Time, body string) error {
	stamp := fmt.Sprint(at.Unix())
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", stamp)
	r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	var said struct{ Outcome, Code string }
	if err := json.NewDecoder(got.Body).Decode(&said); err != nil {
		return err
	}
	fmt.Printf("  %s: %d %s%s\n", id, got.StatusCode, said.Outcome, said.Code)
	return nil
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
	asked := make(chan string, 1)
	w := worker.New(client, worker.Options{})
	worker.Handle(w, charge, func(_ context.Context, job *sojourn.Job, order string) error {
		if job.Response == nil {
			asked <- job.Key
			return sojourn.Await(6 * time.Hour)
		}
		return job.SetResult("paid for order " + order)
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	order := charge.New("42")
	if _, err := client.Enqueue(ctx, order); err != nil {
		return err
	}
	fmt.Println("the bank is asked about", <-asked)
	hook, paid := base+"/answers/webhook/bank", `{"type":"charge.paid","reference":"order-42"}`
	now := time.Now()
	for _, m := range []struct {
		id   string
		at   time.Time
		body string
	}{
		{"evt_1", now.Add(-time.Hour), paid}, // somebody has recorded it, and plays it again
		{"evt_2", now, `{"type":"account.opened"}`},
		{"evt_3", now, `{"type":`},
		{"evt_4", now, paid},
		{"evt_4", now, paid}, // the bank has not seen our answer
	} {
		if err := send(hook, m.id, m.at, m.body); err != nil {
			return err
		}
	}
	job, err := client.Wait(ctx, order.ID)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", job.State, job.Result)
	stop()
	return <-stopped
}
