package server

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/event"
)

// opened is a stream of events.
type opened struct {
	*http.Response
	lines *bufio.Scanner
}

// stream opens the stream of a follower. last is the id of the last event, or empty.
func (s *site) stream(follower, last string, headers ...string) opened {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+"/v1/followers/"+follower+"/events", nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = got.Body.Close() })
	return opened{got, bufio.NewScanner(got.Body)}
}

// next waits for the next event and gives its id, its type and its data; empty at the end.
func (o opened) next() (id, sort, data string) {
	for o.lines.Scan() {
		name, value, _ := strings.Cut(o.lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			sort = value
		case "data":
			data = value
		case "":
			if data != "" {
				return id, sort, data
			}
		}
	}
	return "", "", ""
}

// TestEventStream: events come as they happen; those after the last one that the client has got
// come again with the next stream, and no other.
func TestEventStream(t *testing.T) {
	s := newSite(t, Options{})
	read := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "q"})
	s.want("follow", s.send(http.MethodPut, "/v1/followers/f", `{"queue":"q"}`, read), 200, "")
	enqueue := func(queue string) sojourn.ID {
		t.Helper()
		j := sojourn.NewJob("k", nil, sojourn.Queue(queue))
		if _, err := s.client.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	first := s.stream("f", "", read)
	if got := first.Header.Get("Content-Type"); first.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("%d %s", first.StatusCode, got)
	}
	var ids []string
	for range 3 {
		enqueue("other")
		job := enqueue("q")
		id, sort, data := first.next()
		if ids = append(ids, id); sort != "transition" || !strings.Contains(data, fmt.Sprintf(`"job":%d,`, job)) {
			t.Fatalf("%q %q %s, want job %d", id, sort, data, job)
		}
	}
	_ = first.Body.Close()
	again := s.stream("f", ids[0], read)
	for _, want := range ids[1:] {
		if id, _, data := again.next(); id != want {
			t.Errorf("the next stream has %s %s, want %s", id, data, want)
		}
	}
	_ = again.Body.Close()
	status, err := event.StoreOf(s.client.Store()).Followers(context.Background())
	if err != nil || len(status) != 1 || string(status[0].Position) != ids[0] {
		t.Errorf("acknowledged is %+v %v, want %s", status, err, ids[0])
	}
	s.want("an unknown position", s.send(http.MethodGet, "/v1/followers/f/events?wait=0s", "", read, "Last-Event-ID: 9-999"), 422, "invalid")
	s.want("no position", s.send(http.MethodGet, "/v1/followers/f/events?wait=0s", "", read, "Last-Event-ID: x"), 422, "invalid")
	s.want("a wrong type", s.send(http.MethodGet, "/v1/followers/f/events?wait=0s", "", read, "Accept: application/json"), 406, "not_acceptable")
	s.want("no follower", s.send(http.MethodGet, "/v1/followers/g/events?wait=0s", "", read), 404, "not_found")
	s.want("negative", s.send(http.MethodGet, "/v1/followers/f/events?wait=-1s", "", read), 422, "invalid")
}

// TestEventStreamAcknowledges: a stream names the last event that it has looked at, so a follower
// whose events are rare acknowledges the others too.
func TestEventStreamAcknowledges(t *testing.T) {
	s := newSite(t, Options{})
	read := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbRead}})
	s.want("follow", s.send(http.MethodPut, "/v1/followers/f", `{"queue":"rare"}`, read), 200, "")
	for range 5 {
		if _, err := s.client.Enqueue(t.Context(), sojourn.NewJob("k", nil, sojourn.Queue("busy"))); err != nil {
			t.Fatal(err)
		}
	}
	lag := func() int64 {
		t.Helper()
		status, err := event.StoreOf(s.client.Store()).Followers(context.Background())
		if err != nil || len(status) != 1 {
			t.Fatal(status, err)
		}
		return status[0].Lag
	}
	if n := lag(); n != 5 {
		t.Errorf("the follower is %d events behind, want 5", n)
	}
	a := s.send(http.MethodGet, "/v1/followers/f/events?wait=0s", "", read)
	last := a.body[strings.LastIndex(a.body, "id: ")+len("id: "):]
	if strings.Contains(a.body, "data:") {
		t.Errorf("events of another queue: %s", a.body)
	}
	s.want("the next stream", s.send(http.MethodGet, "/v1/followers/f/events?wait=0s", "", read, "Last-Event-ID: "+strings.TrimSpace(last)), 200, "")
	if n := lag(); n != 0 {
		t.Errorf("the follower is %d events behind after the next stream", n)
	}
}

// TestEventStreamEnds: the stream of a revoked token ends, and that of a server that drains.
func TestEventStreamEnds(t *testing.T) {
	for what, end := range map[string]func(s *site, id string){
		"revoked": func(s *site, id string) {
			keeper := s.client.Store().(access.Keeper)
			all, err := keeper.AccessTokens(s.Context())
			for _, one := range all {
				if one.ID == id && err == nil {
					one.RevokedAt = time.Now().Add(-time.Second)
					err = keeper.SetAccessToken(s.Context(), one)
				}
			}
			if err != nil {
				s.Fatal(err)
			}
			s.forget()
		},
		"drained": func(s *site, _ string) { s.server.Drain() },
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, Options{})
			token, bearer := NewToken("reader", time.Hour, []access.Grant{{Verbs: []access.Verb{access.VerbRead}}})
			if err := s.client.Store().(access.Keeper).SetAccessToken(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			s.forget()
			read := "Authorization: Bearer " + bearer
			s.want("follow", s.send(http.MethodPut, "/v1/followers/f", `{}`, read), 200, "")
			open := s.stream("f", "", read)
			if open.StatusCode != 200 {
				t.Fatal(open.Status)
			}
			ended := make(chan bool)
			go func() { defer close(ended); open.next() }()
			end(s, token.ID)
			select {
			case <-ended:
			case <-time.After(30 * time.Second): // half of the time after which each stream ends
				t.Error("the stream goes on")
			}
		})
	}
}
