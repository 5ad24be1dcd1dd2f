package server

import (
	_ "embed"
	"html/template"
	"net/http"
	"strings"
)

//go:embed docs.html
var docsText string

var docsPage = template.Must(template.New("docs").Parse(docsText))

// serveDocs lists the operations for people. The page loads nothing from anywhere.
func serveDocs(w http.ResponseWriter, _ *http.Request) {
	type line struct{ Method, Path, Summary, Verb string }
	type part struct {
		Name  string
		Lines []line
	}
	var parts []part
	for _, rt := range routes {
		if len(parts) == 0 || parts[len(parts)-1].Name != rt.tag {
			parts = append(parts, part{Name: rt.tag})
		}
		p := &parts[len(parts)-1]
		p.Lines = append(p.Lines, line{rt.method, rt.path, rt.summary, string(rt.verb)})
	}
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'")
	head.Set("Referrer-Policy", "no-referrer")
	var page strings.Builder
	if err := docsPage.Execute(&page, parts); err != nil {
		http.Error(w, "the page failed", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte(page.String()))
}
