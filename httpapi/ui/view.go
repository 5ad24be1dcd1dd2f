package ui

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/plain"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

// files are the templates, the style sheet, the script, and the libraries htmx and uPlot with their
// licences.
//
//go:embed templates/*.html static/*
var files embed.FS

// page is what a page shows. The zero page says that the response was written already.
type page struct {
	name  string // of the template
	title string
	nav   string // the entry of the menu that it belongs to
	live  int    // seconds between two updates of the live part; 0 = none
	from  string // link to the live part, if it is another one than that to the page
	data  any
}

// pages are the templates, each with the layout. A page defines "main", and "live" if a part of it
// is updated.
type pages map[string]*template.Template

func parsePages() pages {
	layout := template.Must(template.New("layout").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	out := pages{}
	names, _ := fs.Glob(files, "templates/*.html")
	for _, name := range names {
		short := strings.TrimSuffix(path.Base(name), ".html")
		if short != "layout" && short != "parts" {
			out[short] = template.Must(template.Must(layout.Clone()).ParseFS(files, name))
		}
	}
	return out
}

// view is what a template gets. D is the data of the page.
type view struct {
	q    *request
	p    page
	D    any
	Base string // relative link to the overview
}

// Title is the title of the page.
func (v view) Title() string { return v.p.title }

// Site is the name of this installation, if it has one.
func (v view) Site() string { return v.q.o.Name }

// In says whether the page belongs to an entry of the menu.
func (v view) In(nav string) bool { return v.p.nav == nav }

// Live is how many seconds are between two updates, 0 if there are none.
func (v view) Live() int { return v.p.live }

// From is the link to the live part of this page.
func (v view) From() string { return cmp.Or(v.p.from, v.q.self()) }

// Person is the name of the token of the reader, empty if no sign-in is needed.
func (v view) Person() string {
	if v.q.who == nil {
		return ""
	}
	return cmp.Or(v.q.who.name, v.q.who.token)
}

// Known says whether the reader is signed in, or needs not be.
func (v view) Known() bool { return v.q.who != nil }

// Open says that everyone may do everything.
func (v view) Open() bool { return !v.q.o.SignIn && !v.q.o.ReadOnly }

// CSRF is the token for the forms of the page.
func (v view) CSRF() string {
	if v.q.who == nil {
		return v.q.csrf("signin")
	}
	return v.q.csrf(v.q.who.csrf)
}

// Can reports whether the reader may do something to the jobs of a queue and kind.
func (v view) Can(verb, queue, kind string) bool { return v.q.can(access.Verb(verb), queue, kind) }

// Done is what the action has done from which the reader comes. The URL has only its name and a
// number, so a link cannot make the page say something else.
func (v view) Done() string {
	text := doneTexts[v.q.r.URL.Query().Get("done")]
	if n, err := strconv.ParseUint(v.q.r.URL.Query().Get("n"), 10, 32); err == nil && strings.Contains(text, "%") {
		return fmt.Sprintf(text, plain.Counted(int64(n), "job"))
	}
	if strings.Contains(text, "%") {
		return ""
	}
	return text
}

var doneTexts = map[string]string{
	"answered": "The answer is stored.", "redriven": "The job runs again.", "cancelled": "The job is cancelled.", "changed": "The change is stored.",
	"bulk-cancel": "%s cancelled.", "bulk-redrive": "%s redriven.", "matched": "The response went to its job.", "retried": "The response was sent again.",
	"discarded": "The response is discarded.", "paused": "Paused: nothing starts.", "resumed": "Resumed.", "held": "Held: nothing starts for now.",
	"unheld": "The hold is over.", "muted": "The group is muted.", "unmuted": "The mute is over.", "started": "The operation is started. It goes on when this page is closed.", "ran": "One job was made.", "drained": "The worker gets no more jobs.", "forgotten": "The worker is removed.",
}

// self is the relative link to the page of a request, without what an action has just done.
func (q *request) self() string {
	query := q.r.URL.Query()
	query.Del("done")
	query.Del("n")
	link := q.base + strings.TrimPrefix(q.r.URL.EscapedPath(), "/")
	if len(query) > 0 {
		link += "?" + query.Encode()
	}
	return link
}

// render writes a page; of a page that is open, only its live part.
func (q *request) render(status int, p page) {
	t, block := q.pages[p.name], "layout"
	if q.partial() && t.Lookup("live") != nil && p.name != "error" {
		block = "live"
	} else if q.partial() {
		block = "main"
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, block, view{q: q, p: p, D: p.data, Base: q.base}); err != nil {
		q.log.Error("template failed", "page", p.name, "error", err)
		http.Error(q.w, "The page failed. The server's log has the cause.", http.StatusInternalServerError)
		return
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	q.w.WriteHeader(status)
	_, _ = q.w.Write(b.Bytes())
}

// serveStatic serves a file that is part of the program. Pages name it with its version.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := "static/" + r.PathValue("file")
	b, err := files.ReadFile(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	types := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b)
}

// functions are those of the templates.
var functions = template.FuncMap{
	"ago": plain.Ago, "stamp": plain.Stamp, "duration": plain.Duration, "state": plain.StateName, "icon": plain.Icon, "counted": plain.Counted, "number": plain.Number, "text": plain.Text, "join": strings.Join,
	"on": func(v view, x any) pair { return pair{v, x} }, "link": link, "asset": asset, "short": plain.Short,
	"next": plain.NextOf, "seconds": func(n int) string { return strconv.Itoa(n) + "s" }, "percent": plain.Percent,
	"took": func(from, to time.Time) string { return plain.Duration(to.Sub(from)) }, "plus": func(a, b int) int { return a + b },
	"counted64": func(n int32, noun string) string { return plain.Counted(int64(n), noun) }, "bytes": func(b []byte) string { return plain.Counted(int64(len(b)), "byte") },
	"budget": budget, "related": relatedJobs, "first": firstQueues, "statecounts": stateCounts, "finals": finalCounts, "progress": progress, "target": target, "handled": handled, "pace": pace, "cause": plain.Cause,
	"periods": func() []int { return []int{1, 7, statistics.DefaultDays} },
	"outcomes": func(m map[sojourn.ResponseOutcome]int64) []sojourn.ResponseOutcome {
		return slices.Sorted(maps.Keys(m))
	},
}

// pair is the view and one thing on it, for parts of pages.
type pair struct {
	V view
	X any
}

// asset is a file with the version of its content, so that browsers may keep it for ever.
func asset(name string) string { return "static/" + name + "?v=" + versions[name] }

// link builds a query from names and values; empty values are left out.
func link(page string, namesAndValues ...any) template.URL {
	query := url.Values{}
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if v := fmt.Sprint(namesAndValues[i+1]); v != "" && v != "0" {
			query.Add(fmt.Sprint(namesAndValues[i]), v)
		}
	}
	if len(query) == 0 {
		return template.URL(page)
	}
	return template.URL(page + "?" + query.Encode())
}

func budget(n int32) string {
	if n < 0 {
		return "any number of"
	}
	return strconv.Itoa(int(n))
}

// relation is a list of jobs with a heading.
type relation struct {
	Name, Note string
	Jobs       []*sojourn.Job
}

func relatedJobs(d jobData) []relation {
	return []relation{{"Parents", "it depends on these", d.Parents}, {"Dependents", "these depend on it", d.Children}, {"Children", "of AwaitJobs", d.Awaited}}
}

func firstQueues(n int, queues []sojourn.QueueStatus) []sojourn.QueueStatus {
	return queues[:min(n, len(queues))]
}

// stateCounts are the counts in the rows of queues.
func stateCounts(s sojourn.QueueStatus) (out []tile) {
	for _, state := range []sojourn.State{sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Scheduled, sojourn.Failed} {
		out = append(out, tile{State: state.String(), Count: s.Counts[state]})
	}
	return out
}

// finalCounts are the counts in the rows of workflows.
func finalCounts(counts map[sojourn.State]int64) (out []tile) {
	for _, state := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
		out = append(out, tile{State: state.String(), Count: counts[state]})
	}
	return out
}
