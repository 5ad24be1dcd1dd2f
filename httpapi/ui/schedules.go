package ui

import (
	"net/url"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/schedule"
)

// Sizes of pages.
const (
	schedulesOnPage = 100
	workersOnPage   = 200
	entriesOnPage   = 100
)

// schedulesData is the data of the page of schedules.
type schedulesData struct {
	Schedules []schedule.Schedule
	Prefix    string
	Next      string // the last name, "" if there are no more
}

func schedulesPage(q *request) (page, error) {
	d := schedulesData{Prefix: q.get("q")}
	found, err := schedule.StoreOf(q.who.client.Store()).Schedules(q.ctx, d.Prefix, q.get("after"), schedulesOnPage)
	if err != nil {
		return page{}, err
	}
	if d.Schedules = found; len(found) == schedulesOnPage {
		d.Next = found[len(found)-1].Name
	}
	return page{name: "schedules", title: "Schedules", nav: "schedules", live: 2, data: d}, nil
}

// doSchedule pauses, resumes or runs a schedule.
func doSchedule(q *request) (string, error) {
	name, calls := q.r.PostForm.Get("name"), schedule.Of(q.who.client)
	to := "schedules?" + url.Values{"q": {q.get("q")}}.Encode() + "&done="
	switch action := schedule.Action(q.get("action")); action {
	case schedule.ActionPause:
		return to + "paused", calls.Pause(q.ctx, name)
	case schedule.ActionResume:
		return to + "resumed", calls.Resume(q.ctx, name)
	case schedule.ActionRun:
		id, err := calls.RunNow(q.ctx, name)
		return "jobs/" + id.String() + "?done=ran", err
	default:
		return "", sojourn.Invalid("action", "%.64q is not an action: use pause, resume or run", string(action))
	}
}

// auditData is the data of the audit log.
type auditData struct {
	Entries []access.AuditEntry
	Names   map[string]string // of tokens, by id
	Who     string
	Next    int64
}

// auditPage lists what operators did, newest first.
func auditPage(q *request) (page, error) {
	reader, ok := q.who.client.Store().(access.AuditReader)
	if !ok {
		return page{}, sojourn.NotFound("this store keeps no audit log")
	}
	before, err := numberOf(q.get("before"))
	if err != nil {
		return page{}, err
	}
	d := auditData{Who: q.get("who"), Names: map[string]string{}}
	if d.Entries, err = reader.AuditLog(q.ctx, access.AuditFilter{Before: before, Limit: entriesOnPage, Who: d.Who}); err != nil {
		return page{}, err
	}
	for _, e := range d.Entries {
		if t, ok := q.tokens.find(q.ctx, e.Who); ok {
			d.Names[e.Who] = t.Name
		}
	}
	if len(d.Entries) == entriesOnPage {
		d.Next = d.Entries[len(d.Entries)-1].Seq
	}
	return page{name: "audit", title: "Audit log", nav: "audit", data: d}, nil
}
