package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/workflow"
)

// token stores a token and gives the header with it.
func (s *site) token(life time.Duration, grants ...access.Grant) string {
	s.Helper()
	return s.issue(func(t *access.Token) { t.ExpiresAt = time.Now().Add(life) }, grants...)
}

// forget makes the server read the tokens again.
func (s *site) forget() {
	d := s.server.door
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Time{}
}

// declared is an operation of the committed description.
type declared struct {
	id, method, path, others string
	verbs                    []string
	body                     bool
}

// operations are those of the committed description.
func operations(t *testing.T) (all []declared) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			ID          string `json:"operationId"`
			Security    []map[string][]string
			Others      string `json:"x-sojourn-others"`
			RequestBody json.RawMessage
		}
	}
	if err := json.Unmarshal(specification(), &doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			one := declared{id: o.ID, method: strings.ToUpper(method), others: o.Others, body: o.RequestBody != nil,
				path: strings.NewReplacer("{id}", "1", "{queue}", "q", "{worker}", "w", "{schedule}", "s", "{workflow}", "f", "{failure}", "0000000000000001", "{operation}", "o", "{tag}", "t", "{setting}", "worker_life", "{follower}", "e").Replace(path)}
			for _, needs := range o.Security {
				one.verbs = append(one.verbs, needs["bearer"]...)
			}
			all = append(all, one)
		}
	}
	if len(all) != len(routes) {
		t.Fatalf("the description has %d operations, the server %d", len(all), len(routes))
	}
	return all
}

// bodies of requests about job 1, which is of queue q and kind k, where {} would be about nothing.
var bodies = map[string]string{
	"enqueueJob": `{"kind":"k","queue":"q"}`, "enqueueJobs": `{"jobs":[{"kind":"k","queue":"q"}]}`, "enqueueStream": `{"kind":"k","queue":"q"}`,
	"readAsk": `{"token":"1.1.1.0.AAAA"}`, "respond": `{"kind":"k","key":"y"}`, "respondAll": `{"responses":[{"kind":"k","key":"y"}]}`, "editInbox": `{"seq":1,"action":"discard"}`,
	"writeLog": `{"text":"checked"}`, "setConfig": `{"value":"24h"}`, "findJobs": `{"queue":"q","kind":"k"}`, "editJobs": `{"filter":{"queue":"q","kind":"k"},"edit":{"action":"cancel"}}`,
	"claim": `{"worker":"w","queues":["q"],"kinds":["k"],"max":1}`, "extend": `{"leases":[{"id":1,"epoch":1,"worker":"w"}]}`,
	"save":     `{"items":[{"lease":{"id":1,"epoch":1,"worker":"w"}}]}`,
	"finish":   `{"outcomes":[{"lease":{"id":1,"epoch":1,"worker":"w"},"type":"completed"}]}`,
	"leaseIDs": `{"count":1}`, "setQueue": `{"paused":true}`, "declareQueue": `{"limit":1}`, "updateQueue": `{"limit":null}`, "pauseQueue": `{"paused":false}`, "holdQueue": `{"for":"0s"}`, "sweep": `{"limit":1}`, "enqueueRaw": "x",
	"startWorkflow": `{"members":[{"name":"m","job":{"kind":"k","queue":"q"}}]}`, "appendMembers": `{"members":[{"name":"n","job":{"kind":"other","queue":"other"}}]}`,
	"closeWorkflow": `{}`, "cancelWorkflow": `{}`, "redriveWorkflow": `{}`,
	"follow": `{"queue":"q","kind":"k"}`, "readEvents": `{"limit":1}`, "muteFailure": `{}`, "startOperation": `{"filter":{"queue":"q","kind":"k"},"edit":{"action":"cancel"}}`,
	"setSchedule": `{"cron":"@daily","job":{"kind":"k","queue":"q"}}`, "declareSchedule": `{"cron":"@daily","job":{"kind":"k","queue":"q"}}`, "testSchedule": `{"cron":"@daily","job":{"kind":"k","queue":"q"}}`,
}

// try sends the request of an operation.
func (s *site) try(o declared, header string) answer {
	s.Helper()
	body := bodies[o.id]
	if o.body && body == "" {
		s.Fatalf("say in bodies what %s is tried with", o.id)
	}
	path, headers := o.path, []string{header}
	switch o.id {
	case "enqueueRaw":
		path += "?kind=k&queue=q"
	case "enqueueStream":
		headers = append(headers, "Content-Type: "+ndjsonType)
	case "listJobs":
		path += "?queue=q&kind=k"
	case "streamEvents":
		path += "?wait=0s"
	case "nearMisses", "listInbox":
		path += "?kind=k&key=y"
	}
	return s.send(o.method, path, body, headers...)
}

// issue stores a token that a test has changed, and gives the header with it.
func (s *site) issue(change func(*access.Token), grants ...access.Grant) string {
	s.Helper()
	t, bearer := NewToken("test", time.Hour, grants)
	change(&t)
	if err := s.client.Store().(access.Keeper).SetAccessToken(s.Context(), t); err != nil {
		s.Fatal(err)
	}
	s.forget()
	return "Authorization: Bearer " + bearer
}

// badTokens: an invalid token is refused for every verb.
func (s *site) badTokens(verb access.Verb) map[string]string {
	s.Helper()
	grant := access.Grant{Verbs: []access.Verb{verb}}
	_, elsewhere := NewToken("of another store", time.Hour, []access.Grant{grant})
	good := s.token(time.Hour, grant)
	return map[string]string{
		"none": "X-Nothing: 1", "empty": "Authorization: Bearer ", "basic": "Authorization: Basic c2o6c2o=", "garbage": "Authorization: Bearer ~~",
		"unknown": "Authorization: Bearer " + elsewhere, "cut": good[:len(good)-1], "longer": good + "A",
		"another's secret": good[:len("Authorization: Bearer sj_0123456789_")] + elsewhere[len("sj_0123456789_"):],
		"expired":          s.issue(func(t *access.Token) { t.ExpiresAt = time.Now().Add(-time.Second) }, grant),
		"revoked":          s.issue(func(t *access.Token) { t.RevokedAt = time.Now().Add(-time.Second) }, grant),
	}
}

// TestEveryRouteAndToken tries every operation of the description with every verb and every sort of
// token, and wants what the description declares.
func TestEveryRouteAndToken(t *testing.T) {
	s := newSite(t, Options{})
	s.seed()
	member := sojourn.NewJob("k", []byte(`"seen"`), sojourn.Queue("q"))
	if _, err := workflow.Of(s.client).Start(t.Context(), workflow.New("f").Add("m", member)); err != nil {
		t.Fatal(err)
	}
	all, tried := operations(t), 0
	for _, verb := range access.Verbs {
		bad := s.badTokens(verb)
		good := s.token(time.Hour, access.Grant{Verbs: []access.Verb{verb}})
		foreign := s.token(time.Hour, access.Grant{Verbs: []access.Verb{verb}, Queue: "other*", Kind: "other*"})
		for _, o := range all {
			unauthorizedBody := ""
			for sort, header := range bad {
				tried++
				a := s.try(o, header)
				s.want(o.id+" with "+sort, a, http.StatusUnauthorized, "unauthorized")
				if a.head.Get("WWW-Authenticate") == "" {
					t.Errorf("%s with %s: no WWW-Authenticate", o.id, sort)
				}
				plain := strings.ReplaceAll(a.body, a.head.Get("X-Request-Id"), "")
				if unauthorizedBody != "" && plain != unauthorizedBody {
					t.Errorf("%s with %s: the answer tells more: %s", o.id, sort, a.body)
				}
				unauthorizedBody = plain
			}
			tried += 2
			if !slices.Contains(o.verbs, string(verb)) {
				s.want(o.id+" with "+string(verb), s.try(o, good), http.StatusForbidden, "insufficient_scope")
				s.want(o.id+" elsewhere with "+string(verb), s.try(o, foreign), http.StatusForbidden, "insufficient_scope")
				continue
			}
			s.foreign(o, verb, foreign)
			a := s.try(o, good)
			if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden && !leased[o.id] || a.status >= 500 {
				t.Errorf("%s with %s: answered %d %s", o.id, verb, a.status, a.body)
			}
		}
	}
	t.Logf("%d requests", tried)
}

// leased operations are about a lease, which the good token of the test does not hold.
var leased = map[string]bool{"extend": true, "save": true, "finish": true}

// seed stores job 1 with something to see in it.
func (s *site) seed() {
	s.Helper()
	j := sojourn.NewJob("k", []byte(`"seen"`))
	j.Queue, j.Key = "q", "y"
	if _, err := s.client.Enqueue(s.Context(), j); err != nil {
		s.Fatal(err)
	}
}

// foreign tries a token for other queues and kinds.
func (s *site) foreign(o declared, verb access.Verb, header string) {
	s.Helper()
	what, a := o.id+" elsewhere with "+string(verb), s.try(o, header)
	if strings.Contains(a.body, "seen") || strings.Contains(a.body, `"q"`) && o.others != "refused" {
		s.Errorf("%s: answered with what is not its own: %s", what, a.body)
	}
	switch o.others {
	case "refused":
		s.want(what, a, http.StatusForbidden, "insufficient_scope")
	case "hidden":
		s.want(what, a, http.StatusNotFound, "not_found")
	case "filtered":
		nothing := strings.Contains(a.body, `[]`) || strings.Contains(a.body, `{"rows":[{"enqueued":0,`) // a total of nothing is 0
		if a.status != http.StatusOK || !nothing && !strings.Contains(a.body, "insufficient_scope") {
			s.Errorf("%s: answered %d %s", what, a.status, a.body)
		}
	case "shared":
		if a.status != http.StatusOK {
			s.Errorf("%s: answered %d %s", what, a.status, a.body)
		}
	default:
		s.Errorf("%s: the description does not say what others are answered", o.id)
	}
}

// TestScopes tries what a token may do with jobs of other queues and kinds.
func TestScopes(t *testing.T) {
	s := newSite(t, Options{})
	all := []access.Verb{access.VerbEnqueue, access.VerbRespond, access.VerbWork, access.VerbRead, access.VerbReadArgs, access.VerbOperate}
	pay := s.token(time.Hour, access.Grant{Verbs: all, Queue: "pay*", Kind: "charge_*"})
	admin := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbAdmin}})
	mail := s.send(http.MethodPost, "/v1/jobs", `{"kind":"send_mail","queue":"mail","key":"m","args":{"secret":1}}`, admin)
	s.want("another's job", mail, 201, "")
	s.want("my job", s.send(http.MethodPost, "/v1/jobs", `{"kind":"charge_card","queue":"payments","args":{"n":1}}`, pay), 201, "")
	var other struct{ ID json.Number }
	if err := json.Unmarshal([]byte(mail.body), &other); err != nil {
		t.Fatal(err)
	}
	missing := s.send(http.MethodGet, "/v1/jobs/999", "", pay)
	id := other.ID.String()
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/v1/jobs", `{"kind":"charge_card","queue":"mail"}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs", `{"kind":"send_mail","queue":"payments"}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs", `{"kind":"charge_card"}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs/batch", `{"jobs":[{"kind":"charge_card","queue":"pay"},{"kind":"send_mail","queue":"pay"}]}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs/raw?kind=send_mail&queue=pay", "x", 403, "insufficient_scope"},
		{"GET", "/v1/jobs/" + id, "", 404, "not_found"}, {"GET", "/v1/jobs/" + id + "/args", "", 404, "not_found"},
		{"GET", "/v1/jobs/" + id + "/result", "", 404, "not_found"}, {"GET", "/v1/jobs/" + id + "/history", "", 404, "not_found"},
		{"GET", "/v1/jobs/" + id + "/log", "", 404, "not_found"}, {"GET", "/v1/jobs/" + id + "/why", "", 404, "not_found"},
		{"GET", "/v1/jobs", "", 403, "insufficient_scope"}, {"GET", "/v1/jobs?queue=mail&kind=charge_card", "", 403, "insufficient_scope"},
		{"GET", "/v1/jobs?queue=payments&kind=charge_card&full=true", "", 200, ""},
		{"GET", "/v1/jobs?id=" + id, "", 200, ""}, {"GET", "/v1/jobs?where=queue:mail+kind:charge_card", "", 403, "insufficient_scope"},
		{"GET", "/v1/jobs?where=queue:payments+kind:charge_card+age:%3E1ns", "", 200, ""}, {"GET", "/v1/jobs?where=kind:charge_card&kind=charge_card", "", 422, "invalid"},
		{"POST", "/v1/jobs/find", `{"where":"state:live"}`, 403, "insufficient_scope"}, {"POST", "/v1/jobs/edit", `{"filter":{"where":"state:live"},"edit":{"action":"cancel"}}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs/edit", `{"filter":{"where":"charge"},"edit":{"action":"cancel"}}`, 422, "invalid"},
		{"POST", "/v1/jobs/edit", `{"filter":{},"edit":{"action":"cancel"}}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs/edit", `{"filter":{"ids":[` + id + `]},"edit":{"action":"cancel"}}`, 200, ""},
		{"POST", "/v1/jobs/edit", `{"filter":{"ids":[2]},"edit":{"action":"purge"}}`, 200, ""},
		{"POST", "/v1/jobs/edit", `{"filter":{"ids":[` + id + `]},"edit":{"action":"cancel","all":true}}`, 422, "invalid"},
		{"POST", "/v1/jobs/edit", `{"filter":{"ids":[2]},"edit":{"action":"change","change":{"queue":"mail"}}}`, 403, "insufficient_scope"},
		{"POST", "/v1/claim", `{"worker":"w","queues":["payments","mail"],"kinds":["charge_card"],"max":1}`, 403, "insufficient_scope"},
		{"POST", "/v1/claim", `{"worker":"w","queues":["payments"],"kinds":["charge_card","send_mail"],"max":1}`, 403, "insufficient_scope"},
		{"POST", "/v1/extend", `{"leases":[{"id":1,"epoch":1,"worker":"w"}]}`, 403, "insufficient_scope"},
		{"POST", "/v1/save", `{"items":[{"lease":{"id":1,"epoch":1,"worker":"w"}}]}`, 403, "insufficient_scope"},
		{"POST", "/v1/finish", `{"outcomes":[{"lease":{"id":1,"epoch":1,"worker":"w"},"type":"completed"}]}`, 403, "insufficient_scope"},
		{"POST", "/v1/responses", `{"kind":"send_mail","key":"m"}`, 403, "insufficient_scope"},
		{"POST", "/v1/responses", `{"job":` + id + `}`, 404, "not_found"},
		{"GET", "/v1/inbox", "", 403, "insufficient_scope"},
		{"POST", "/v1/queues/mail/hold", `{"for":"1m"}`, 403, "insufficient_scope"},
		{"GET", "/v1/queues/mail/why", "", 403, "insufficient_scope"},
		{"GET", "/v1/audit", "", 403, "insufficient_scope"},
	} {
		a := s.send(c.method, c.path, c.body, pay)
		s.want(c.method+" "+c.path+" "+c.body, a, c.status, c.code)
		if strings.Contains(a.body, "secret") || strings.Contains(a.body, `"key":"m"`) {
			t.Errorf("%s %s tells of another's job: %s", c.method, c.path, a.body)
		}
		if c.path == "/v1/jobs/"+id {
			got := strings.NewReplacer(id, "N", a.head.Get("X-Request-Id"), "").Replace(a.body)
			want := strings.NewReplacer("999", "N", missing.head.Get("X-Request-Id"), "").Replace(missing.body)
			if got != want {
				t.Errorf("another's job answers %s, one that does not exist %s", got, want)
			}
		}
	}
	if a := s.send(http.MethodGet, "/v1/queues", "", pay); strings.Contains(a.body, `"mail"`) {
		t.Errorf("the list of queues shows others: %s", a.body)
	}
	s.leasesOfOthers(pay, admin)
}

// leasesOfOthers: a token reports only on the leases that it holds, and operators' actions are in
// the audit log.
func (s *site) leasesOfOthers(pay, admin string) {
	s.Helper()
	a := s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["payments"],"kinds":["charge_card"],"max":1}`, pay)
	var claimed struct {
		Jobs []struct{ Lease json.RawMessage }
	}
	if err := json.Unmarshal([]byte(a.body), &claimed); err != nil || len(claimed.Jobs) != 1 {
		s.Fatalf("claim answered %d %s", a.status, a.body)
	}
	outcome := `{"outcomes":[{"lease":` + string(claimed.Jobs[0].Lease) + `,"type":"completed","result":"done"}]}`
	other := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbWork}, Queue: "pay*"})
	s.want("finish with another token", s.send(http.MethodPost, "/v1/finish", outcome, other), 403, "insufficient_scope")
	if a := s.send(http.MethodPost, "/v1/finish", outcome, pay); !strings.Contains(a.body, `"applied"`) {
		s.Errorf("finish answered %d %s", a.status, a.body)
	}
	s.want("settings", s.send(http.MethodPut, "/v1/queues/mail", `{"paused":true}`, admin), 200, "")
	log := s.send(http.MethodGet, "/v1/audit", "", admin).body
	for _, want := range []string{`"action":"setQueue"`, `"target":"/v1/queues/mail"`, `paused`, `"code":"insufficient_scope"`, `"action":"editJobs"`} {
		if !strings.Contains(log, want) {
			s.Errorf("the audit log has no %s: %s", want, log)
		}
	}
}
