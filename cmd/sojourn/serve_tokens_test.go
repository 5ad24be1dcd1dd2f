package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// madeFor makes a token with the command.
func madeFor(t *testing.T, store string, args ...string) (made struct{ ID, Token string }) {
	t.Helper()
	out := (&started{T: t}).command(append(append([]string{"token"}, args...), "--store", store, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// opens asks a server until it accepts a token, or refuses it. Each request that was sent later
// than within from now must have that answer, however busy the machine is.
func (s *started) opens(token string, want bool, within time.Duration) {
	s.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		sent := time.Now()
		status, body := s.send("GET", "/v1/status", "", token)
		switch {
		case status == 200 == want:
			return
		case sent.Sub(began) > within:
			s.Fatalf("a request sent %v later is answered %d %s", sent.Sub(began), status, body)
		case status != 200 && status != 401 || time.Since(began) > patience:
			s.Fatalf("answered %d %s", status, body)
		}
	}
}

// TestTokensOnTwoServers: rotation leaves no gap, and an end reaches every server within 5 s.
func TestTokensOnTwoServers(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	old := madeFor(t, store, "create", "--name", "shop", "--verb", "read")
	one, two := serve(t, "--store", store), serve(t, "--store", store)
	one.opens(old.Token, true, 5*time.Second)
	two.opens(old.Token, true, 5*time.Second)
	made := time.Now()
	fresh := madeFor(t, store, "rotate", old.ID, "--overlap", "4s")
	one.opens(fresh.Token, true, 5*time.Second)
	two.opens(fresh.Token, true, 5*time.Second)
	// A machine that is very busy may be past the overlap before the request or after it.
	if status, _ := one.send("GET", "/v1/status", "", old.Token); status != 200 && time.Since(made) < 3*time.Second {
		t.Errorf("the old token is answered %d in the overlap", status)
	}
	one.opens(old.Token, false, 9*time.Second)
	two.opens(old.Token, false, 9*time.Second)
	if took := time.Since(made); took < 3*time.Second {
		t.Errorf("the old token ended after %v", took)
	}
	if status, _ := one.send("POST", "/v1/jobs", `{"kind":"k"}`, fresh.Token); status != 403 {
		t.Errorf("the new token allows what the old one did not: %d", status)
	}
	one.command("token", "revoke", fresh.ID, "--store", store)
	for _, s := range []*started{one, two} {
		s.opens(fresh.Token, false, 5*time.Second)
	}
}

// TestLogsAreSilent takes jobs through their lives, with mistakes on the way, and looks for what
// must not be in the logs: tokens, capabilities, args, results, errors, keys and bodies.
func TestLogsAreSilent(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"text", "json"} {
		store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
		made := madeFor(t, store, "create", "--name", "all", "--verb", "admin")
		s := serve(t, "--store", store, "--log", form)
		send := func(method, path, body string, want int) string {
			t.Helper()
			status, answer := s.send(method, path, body, made.Token)
			if status != want {
				t.Errorf("%s %s: answered %d %s", method, path, status, answer)
			}
			return answer
		}
		send("POST", "/v1/jobs", `{"kind":"k","key":"hidden-key","args":"hidden-args","meta":{"m":"hidden-meta"}}`, 201)
		lease := func() string {
			t.Helper()
			var got struct {
				Jobs []struct {
					Lease json.RawMessage
					Job   struct{ Token string }
				}
			}
			answer := send("POST", "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["k"],"max":1,"lease":"1m"}`, 200)
			if json.Unmarshal([]byte(answer), &got) != nil || len(got.Jobs) != 1 {
				t.Fatalf("claim: %s", answer)
			}
			return string(got.Jobs[0].Lease)
		}
		first := lease()
		send("POST", "/v1/save", `{"items":[{"lease":`+first+`,"checkpoint":"hidden-checkpoint","progress":"hidden-progress","log":[{"text":"hidden-log"}]}]}`, 200)
		send("POST", "/v1/finish", `{"outcomes":[{"lease":`+first+`,"type":"await"}]}`, 200)
		send("POST", "/v1/responses", `{"kind":"k","key":"hidden-key","message_id":"hidden-message","body":"hidden-body"}`, 200)
		send("POST", "/v1/finish", `{"outcomes":[{"lease":`+lease()+`,"type":"error","error":"hidden-error","reason":"hidden-reason"}]}`, 200)
		send("GET", "/v1/jobs?kind=k&key=hidden-key", "", 200)
		send("POST", "/v1/jobs", `{"kind":"k","hidden-field":1}`, 422)
		send("POST", "/v1/jobs", `{"kind":"hidden kind"}`, 422)
		send("POST", "/v1/jobs", `{"kind":"hidden`, 400)
		send("GET", "/v1/jobs?token="+made.Token, "", 400)
		send("GET", "/v1/hidden-path", "", 404)
		send("GET", "/v1/jobs/"+made.Token, "", 404)
		send("POST", "/v1/jobs/edit", `{"filter":{"ids":[1]},"edit":{"action":"cancel","reason":"hidden-why"}}`, 200)
		if status, _ := s.send("GET", "/v1/status", "", made.Token+"x"); status != 401 {
			t.Errorf("a wrong token is answered %d", status)
		}
		log := s.log()
		for _, secret := range []string{"hidden", made.Token, made.Token[len(made.Token)-20:], "Bearer"} {
			if strings.Contains(log, secret) {
				t.Errorf("%s: the log has %q:\n%s", form, secret, log)
			}
		}
		if n := strings.Count(log, made.ID); n < 10 {
			t.Errorf("%s: the log names the token %d times:\n%s", form, n, log)
		}
		if errs := fmt.Sprint(strings.Count(log, "unknown_field"), strings.Count(log, "token_in_url"), strings.Count(log, "unauthorized")); errs != "1 1 1" {
			t.Errorf("%s: problems in the log: %s", form, errs)
		}
	}
}
