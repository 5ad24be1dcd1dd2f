// Package docsite makes a static site from the Markdown files of the documentation.
//
//   - New reads and renders all pages with goldmark, and checks each link between them;
//   - Site.Write writes the site into a folder, which any web server can serve and a browser can
//     open from the disk;
//   - Site.Handler serves the same files over HTTP.
//
// Each page x.html has its Markdown beside it as x.md, and llms.txt lists all pages for programs.
// The search runs in the browser, with MiniSearch, over an index of all sections: no server is
// needed. Its file defines a variable, because a page that was opened from the disk may not fetch.
package docsite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Site is a rendered site. It does not change, so it is safe for concurrent use.
type Site struct {
	files map[string][]byte // by path, such as guides/go.html
}

// group is a part of the menu: the pages of a folder.
type group struct {
	dir, Title string
	Pages      []*page
}

func menu() []*group {
	return []*group{{dir: ".", Title: "Start"}, {dir: "guides", Title: "Guides"}, {dir: "reference", Title: "Reference"},
		{dir: "internals", Title: "Inside"}, {dir: "decisions", Title: "Decisions"}}
}

// New makes the site of the Markdown files and pictures in files. source is the address of the
// repository's files, without a slash at the end: links that leave files lead there. A link to a
// page or a heading that does not exist is an error.
func New(files fs.FS, source string) (*Site, error) {
	pages, pictures, err := read(files)
	if err != nil {
		return nil, err
	}
	r := newRenderer(pages, source)
	var broken []error
	for _, p := range pages {
		broken = append(broken, r.render(p))
	}
	for _, p := range pages {
		broken = append(broken, r.checkLinks(p)...)
	}
	if err := errors.Join(broken...); err != nil {
		return nil, err
	}
	s := &Site{files: pictures}
	return s, s.build(pages)
}

// read gives the pages in the order of their paths, the first page in front, and all other files.
func read(files fs.FS) (pages []*page, others map[string][]byte, err error) {
	others = map[string][]byte{}
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		switch path.Ext(name) {
		case ".md":
			pages = append(pages, &page{source: name, Path: htmlPath(name), text: text, ids: map[string]bool{}})
		case ".png", ".svg":
			others[name] = text
		}
		return err
	})
	slices.SortStableFunc(pages, func(a, b *page) int { return rank(a) - rank(b) })
	return pages, others, err
}

// rank puts the first page of each folder in front.
func rank(p *page) int {
	if path.Base(p.source) == "README.md" {
		return 0
	}
	return 1
}

// htmlPath is the path of a page in the site.
func htmlPath(source string) string {
	if path.Base(source) == "README.md" {
		return path.Join(path.Dir(source), "index.html")
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

// build adds the pages with their menus, their sources, the index of the search, llms.txt and the
// static files.
func (s *Site) build(pages []*page) error {
	groups := menu()
	for _, p := range pages {
		for _, g := range groups {
			if g.dir == path.Dir(p.source) {
				g.Pages = append(g.Pages, p)
			}
		}
	}
	for _, p := range pages {
		var out bytes.Buffer
		root := strings.Repeat("../", strings.Count(p.Path, "/"))
		if err := layout.Execute(&out, shown{Page: p, Groups: groups, Root: root}); err != nil {
			return fmt.Errorf("%s: %w", p.source, err)
		}
		s.files[p.Path] = out.Bytes()
		s.files[strings.TrimSuffix(p.Path, ".html")+".md"] = p.text
	}
	index, err := json.Marshal(sectionsOf(pages))
	if err != nil {
		return err
	}
	s.files["search-index.js"] = slices.Concat([]byte("window.searchIndex = "), index, []byte(";\n"))
	s.files["llms.txt"] = listForPrograms(groups)
	entries, err := static.ReadDir("static")
	for _, e := range entries {
		if e.Name() != "page.html" {
			s.files[e.Name()], _ = static.ReadFile("static/" + e.Name())
		}
	}
	return err
}

// listForPrograms is llms.txt in the form of llmstxt.org: each page with its first sentence.
func listForPrograms(groups []*group) []byte {
	var out bytes.Buffer
	out.WriteString("# Sojourn\n\n> A durable job queue in Go, for jobs that wait for answers from outside. Each page has its Markdown beside it.\n")
	for _, g := range groups {
		fmt.Fprintf(&out, "\n## %s\n\n", g.Title)
		for _, p := range g.Pages {
			fmt.Fprintf(&out, "- [%s](%s): %s\n", p.Title, strings.TrimSuffix(p.Path, ".html")+".md", p.Summary)
		}
	}
	return out.Bytes()
}

// shown is what the layout of a page gets.
type shown struct {
	Page   *page
	Groups []*group
	Root   string // from the page to the first page
}

var layout = template.Must(template.ParseFS(static, "static/page.html"))

// Write writes the site into a folder, which it makes. Files that are there are replaced; no other
// file is touched.
func (s *Site) Write(dir string) error {
	for name, text := range s.files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Handler serves the site at the root of its path.
func (s *Site) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		if name == "" || strings.HasSuffix(r.URL.Path, "/") {
			name = path.Join(name, "index.html")
		}
		text, found := s.files[name]
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the documentation can only be read", http.StatusMethodNotAllowed)
			return
		case !found:
			http.Error(w, "no such page; / has all pages", http.StatusNotFound)
			return
		}
		h := w.Header()
		h.Set("Content-Type", contentType(name))
		h.Set("Content-Security-Policy", "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(text)
	})
}

// contentType does not ask the system's table of types, which differs between machines.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".png":
		return "image/png"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}
