package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// manyIDs is a list of n ids.
func manyIDs(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }

// TestBadDependencies sends dependencies, edits and follow-up jobs that cannot be, and checks that
// nothing is stored of them. The numbers are those of the bad-input table.
func TestBadDependencies(t *testing.T) {
	s := newSite(t, Options{Open: true, MaxBody: 1 << 20})
	parent := enqueued(t, s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`)).ID
	own := s.block(2)
	before := s.stored()
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"39 unknown", `{"kind":"k","depends_on":[{"jobs":[987654321]}]}`, 422, "unknown_dependency"},
		{"39 own id", fmt.Sprintf(`{"id":%d,"kind":"k","depends_on":[{"jobs":[%d]}]}`, own, own), 422, "cycle"},
		{"39 too many parents", `{"kind":"k","depends_on":[{"jobs":` + manyIDs(sojourn.MaxDepends+1) + `}]}`, 422, "invalid"},
		{"39 an id of 0", `{"kind":"k","depends_on":[{"jobs":[0]}]}`, 422, "invalid"},
		{"39 an id beyond 2^53", `{"kind":"k","depends_on":[{"jobs":[9007199254740992]}]}`, 422, "invalid"},
		{"39 an id that is a text", `{"kind":"k","depends_on":[{"jobs":["1"]}]}`, 422, "invalid"},
		{"on_failure", `{"kind":"k","depends_on":[{"jobs":[1],"on_failure":"explode"}]}`, 422, "invalid"},
		{"5 unknown field", `{"kind":"k","depends_on":[{"jobs":[1],"onfailure":"wait"}]}`, 422, "unknown_field"},
		{"a list of ids", `{"kind":"k","depends_on":[1]}`, 422, "invalid"},
	} {
		s.want(c.name, s.send(http.MethodPost, "/v1/jobs", c.body), c.status, c.code)
	}
	cycle := fmt.Sprintf(`{"jobs":[{"id":%d,"kind":"k","depends_on":[{"jobs":[%d]}]},{"id":%d,"kind":"k","depends_on":[{"jobs":[%d]}]}]}`, own, own+1, own+1, own)
	s.contains("39 cycle", s.send(http.MethodPost, "/v1/jobs/batch", cycle), 422, fmt.Sprint(own), fmt.Sprint(own+1))
	s.want("39 cycle of a workflow", s.send(http.MethodPut, "/v1/workflows/w",
		`{"members":[{"name":"a","job":{"kind":"k"},"after":["b"]},{"name":"b","job":{"kind":"k"},"after":["a"]}]}`), 422, "cycle")
	if n := s.stored(); n != before {
		t.Errorf("%d jobs were stored", n-before)
	}
	edit := func(e string) answer {
		return s.send(http.MethodPost, "/v1/jobs/edit", fmt.Sprintf(`{"filter":{"ids":[%d]},"edit":%s}`, parent, e))
	}
	s.want("dependents of a redrive", edit(`{"action":"redrive","dependents":"cancel"}`), 422, "invalid")
	s.want("dependents that are none", edit(`{"action":"cancel","dependents":"explode"}`), 422, "invalid")
	s.want("depend_on of a cancel", edit(`{"action":"cancel","change":{"depend_on":[{"jobs":[1]}]}}`), 422, "invalid")
	s.contains("depend_on of a ready job", edit(`{"action":"change","change":{"depend_on":[{"jobs":[1],"missing_ok":true}]}}`), 200, `"conflict"`)
	lease := s.claimed("k")
	for name, rest := range map[string]string{
		"next of an error":               `"type":"error","next":[{"kind":"k"}]`,
		"next without a kind":            `"type":"completed","next":[{}]`,
		"a next with a bad dependency":   `"type":"completed","next":[{"kind":"k","depends_on":[{"jobs":[987654321]}]}]`,
		"1,001 next jobs":                `"type":"completed","next":[` + strings.Repeat(`{"kind":"k"},`, sojourn.MaxBatch) + `{"kind":"k"}]`,
		"next of an advance":             `"type":"advance","next":[{"kind":"k"}]`,
		"an advance into no queue":       `"type":"advance","queue":"no queue"`,
		"an advance with a long delay":   `"type":"advance","delay":"900000h"`,
		"an advance with a bad weight":   `"type":"advance","weight":-1`,
		"a priority of another outcome":  `"type":"completed","priority":3`,
		"a next under an id of no block": `"type":"completed","next":[{"id":9007199254740000,"kind":"k"}]`,
	} {
		s.contains(name, s.finish(lease, rest), 200, `"refused"`, `"code":"`)
	}
	s.want("an unknown field of next", s.finish(lease, `"type":"completed","next":[{"kynd":"k"}]`), 422, "unknown_field")
	if n := s.stored(); n != before {
		t.Errorf("%d jobs were stored by refused reports", n-before)
	}
	s.contains("the report afterwards", s.finish(lease, `"type":"completed","next":[{"kind":"k2"},{"kind":"k2","delay":"1h"}]`), 200, `"applied"`)
	s.contains("its repeat", s.finish(lease, `"type":"completed","next":[{"kind":"k2"},{"kind":"k2","delay":"1h"}]`), 200, `"repeated"`)
	if n := s.stored(); n != before+2 {
		t.Errorf("%d jobs follow, want 2", n-before)
	}
}

// block leases ids and gives the first.
func (s *site) block(n int, headers ...string) (first int64) {
	s.Helper()
	var got struct{ First int64 }
	a := s.send(http.MethodPost, "/v1/ids", fmt.Sprintf(`{"count":%d}`, n), headers...)
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.First == 0 {
		s.Fatalf("ids answered %d %s", a.status, a.body)
	}
	return got.First
}

// TestGraphOverHTTP: a batch whose jobs depend on each other, its lists, its change and its ends.
func TestGraphOverHTTP(t *testing.T) {
	s := newSite(t, Options{Open: true})
	id := s.block(3)
	s.want("a batch", s.send(http.MethodPost, "/v1/jobs/batch", fmt.Sprintf(`{"jobs":[{"id":%d,"kind":"a"},{"id":%d,"kind":"b","depends_on":[{"jobs":[%d]}]},
		{"id":%d,"kind":"c","depends_on":[{"jobs":[%d,%d],"on_failure":"cancel"}]}]}`, id, id+1, id, id+2, id, id+1)), 200, "")
	s.contains("what waits", s.send(http.MethodGet, fmt.Sprintf("/v1/jobs/%d", id+2), ""), 200, `"state":"blocked"`, `"waits_for":2`)
	s.contains("why", s.send(http.MethodGet, fmt.Sprintf("/v1/jobs/%d/why", id+2), ""), 200, fmt.Sprintf("job %d (ready)", id))
	s.contains("parents", s.send(http.MethodGet, fmt.Sprintf("/v1/jobs?parents_of=%d", id+2), ""), 200, `"kind":"a"`, `"kind":"b"`)
	s.contains("children", s.send(http.MethodPost, "/v1/jobs/find", fmt.Sprintf(`{"children_of":%d}`, id)), 200, `"kind":"b"`, `"kind":"c"`)
	edit := func(of int64, e string) answer {
		return s.send(http.MethodPost, "/v1/jobs/edit", fmt.Sprintf(`{"filter":{"ids":[%d]},"edit":%s}`, of, e))
	}
	s.contains("cancel without a word about dependents", edit(id, `{"action":"cancel"}`), 200, `"conflict"`, fmt.Sprint(id+1))
	s.contains("undepend", edit(id+2, fmt.Sprintf(`{"action":"change","change":{"undepend":[%d]}}`, id+1)), 200, `"changed":1`)
	s.contains("what waits then", s.send(http.MethodGet, fmt.Sprintf("/v1/jobs/%d", id+2), ""), 200, `"waits_for":1`)
	s.contains("depend on", edit(id+2, fmt.Sprintf(`{"action":"change","change":{"depend_on":[{"jobs":[%d]}]}}`, id+1)), 200, `"changed":1`)
	lease := s.claimed("a")
	s.contains("a stage", s.finish(lease, `"type":"advance","delay":"0s"`), 200, `"applied"`)
	s.contains("the stage of the job", s.send(http.MethodGet, fmt.Sprintf("/v1/jobs/%d", id), ""), 200, `"stage":1`)
	s.contains("undepend all", edit(id+2, `{"action":"change","change":{"undepend":[]}}`), 200, `"changed":1`)
	s.contains("it is free", s.send(http.MethodGet, fmt.Sprintf("/v1/jobs/%d", id+2), ""), 200, `"state":"ready"`)
	s.contains("cancel with dependents", edit(id, `{"action":"cancel","dependents":"cancel"}`), 200, `"changed":1`)
}

// TestGraphStopsAtGrants: a token neither depends on, lists, cascades to, follows nor advances into
// what it has no grant for, and learns nothing of it.
func TestGraphStopsAtGrants(t *testing.T) {
	s := newSite(t, Options{})
	mallory := s.token(time.Hour, grant("att*", "", access.VerbAdmin))
	secret := sojourn.NewJob("k", nil, sojourn.Queue("vic"))
	if _, err := s.client.Enqueue(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	depends := func(id sojourn.ID) string {
		return fmt.Sprintf(`{"kind":"k","queue":"att","depends_on":[{"jobs":[%d]}]}`, id)
	}
	foreign := s.send(http.MethodPost, "/v1/jobs", depends(secret.ID), mallory)
	s.want("a foreign parent", foreign, 422, "unknown_dependency")
	unknown := s.send(http.MethodPost, "/v1/jobs", depends(secret.ID+7_000_000), mallory)
	for _, a := range []*answer{&foreign, &unknown} {
		a.body, _, _ = strings.Cut(a.body, `"request_id"`)
		a.body = strings.NewReplacer(fmt.Sprint(secret.ID+7_000_000), "N", fmt.Sprint(secret.ID), "N").Replace(a.body)
	}
	if foreign.body != unknown.body {
		t.Errorf("a foreign parent answers %s, an unknown one %s", foreign.body, unknown.body)
	}
	mine := sojourn.ID(enqueued(t, s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","queue":"att"}`, mallory)).ID)
	spy := sojourn.NewJob("k", nil, sojourn.Queue("vic"), sojourn.DependsOn(mine))
	if _, err := s.client.Enqueue(t.Context(), spy); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{fmt.Sprintf("children_of=%d", mine), fmt.Sprintf("parents_of=%d", spy.ID), fmt.Sprintf("children_of=%d", secret.ID)} {
		if a := s.send(http.MethodGet, "/v1/jobs?"+query, "", mallory); a.status != 200 || a.body != `{"jobs":[]}` && a.body != "{\"jobs\":[]}\n" {
			t.Errorf("%s answered %d %s", query, a.status, a.body)
		}
	}
	a := s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["att"],"kinds":["k"],"max":1,"lease":"1m"}`, mallory)
	var got struct {
		Jobs []struct{ Lease json.RawMessage }
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Jobs) != 1 {
		t.Fatalf("claim answered %d %s", a.status, a.body)
	}
	finish := func(rest string) answer {
		return s.send(http.MethodPost, "/v1/finish", `{"outcomes":[{"lease":`+string(got.Jobs[0].Lease)+`,`+rest+`}]}`, mallory)
	}
	s.contains("a foreign next", finish(`"type":"completed","next":[{"kind":"k","queue":"vic"}]`), 200, `"refused"`, access.CodeScope)
	s.contains("a foreign stage", finish(`"type":"advance","queue":"vic"`), 200, `"refused"`, access.CodeScope)
	s.contains("a next with a foreign parent", finish(`"type":"completed","next":[`+depends(secret.ID)+`]`), 200, `"refused"`, "unknown_dependency")
	cancel := fmt.Sprintf(`{"filter":{"ids":[%d]},"edit":{"action":"cancel","dependents":"cancel"}}`, mine)
	s.contains("a cascade", s.send(http.MethodPost, "/v1/jobs/edit", cancel, mallory), 200, `"changed":1`)
	if j, err := s.client.Get(t.Context(), spy.ID); err != nil || j.State != sojourn.Blocked {
		t.Errorf("the foreign dependent is %+v, %v", j, err)
	}
	if n := s.stored(); n != 3 {
		t.Errorf("%d jobs are stored, want 3", n)
	}
}

// TestBadSchedules sends schedules that cannot be, and checks that none is stored. A token sees and
// changes only schedules into its queues. The numbers are those of the bad-input table.
func TestBadSchedules(t *testing.T) {
	s := newSite(t, Options{Open: true})
	job := `"job":{"kind":"k"}`
	for name, body := range map[string]string{
		"38 seven fields": `{"cron":"0 0 0 1 1 * 2030",` + job + `}`, "38 minute 60": `{"cron":"60 * * * *",` + job + `}`,
		"38 never": `{"cron":"30 2 31 2 *",` + job + `}`, "38 a word": `{"cron":"@never",` + job + `}`, "neither cron nor every": `{` + job + `}`,
		"both": `{"cron":"@daily","every":"1h",` + job + `}`, "a zone that is none": `{"cron":"@daily","zone":"Mars/Base",` + job + `}`,
		"every half a second": `{"every":"500ms",` + job + `}`, "jitter": `{"cron":"@daily","jitter":"25h",` + job + `}`,
		"catch_up": `{"cron":"@daily","catch_up":-2,` + job + `}`, "overlap": `{"cron":"@daily","overlap":"maybe",` + job + `}`,
		"end before start":    `{"cron":"@daily","start":"2030-01-02T00:00:00Z","end":"2030-01-01T00:00:00Z",` + job + `}`,
		"a job with a run_at": `{"cron":"@daily","job":{"kind":"k","run_at":"2030-01-01T00:00:00Z"}}`, "no job": `{"cron":"@daily"}`,
		"a job with parents": `{"cron":"@daily","job":{"kind":"k","depends_on":[{"jobs":[1]}]}}`, "a job with an id": `{"cron":"@daily","job":{"id":1,"kind":"k"}}`,
	} {
		s.want(name, s.send(http.MethodPut, "/v1/schedules/s", body), 422, "invalid")
		s.want(name+", declared", s.send(http.MethodPut, "/v1/schedules/s/declared", body), 422, "invalid")
		s.want(name+", tested", s.send(http.MethodPost, "/v1/schedules/s/test", body), 422, "invalid")
	}
	s.want("5 unknown field", s.send(http.MethodPut, "/v1/schedules/s", `{"crone":"@daily",`+job+`}`), 422, "unknown_field")
	s.want("a name that is none", s.send(http.MethodPut, "/v1/schedules/no%20name", `{"cron":"@daily",`+job+`}`), 422, "invalid")
	s.contains("a test", s.send(http.MethodPost, "/v1/schedules/s/test", `{"cron":"30 2 * * *","zone":"Europe/Berlin",`+job+`}`), 200, `"next":["`, "02:30, Europe/Berlin")
	s.contains("nothing is stored", s.send(http.MethodGet, "/v1/schedules", ""), 200, `"schedules":[]`)
	for _, part := range []string{"/pause", "/resume", "/run"} {
		s.want("unknown "+part, s.send(http.MethodPost, "/v1/schedules/nope"+part, ""), 404, "not_found")
	}
	s.want("unknown", s.send(http.MethodDelete, "/v1/schedules/nope", ""), 404, "not_found")
	s.contains("set", s.send(http.MethodPut, "/v1/schedules/s", `{"every":"1h","job":{"kind":"k","queue":"line"}}`), 200, `"next":["`)
	s.contains("peek", s.send(http.MethodGet, "/v1/jobs?next=true&queue=line", ""), 200, `"virtual":true`, `"schedule":"s"`, `"scheduled_for":"`)
	if n := s.stored(); n != 0 {
		t.Errorf("a look at ticks stored %d jobs", n)
	}
	s.contains("run", s.send(http.MethodPost, "/v1/schedules/s/run", ""), 200, `"last_job":`)
	s.contains("delete", s.send(http.MethodDelete, "/v1/schedules/s", ""), 200, `"name":"s"`)
}
