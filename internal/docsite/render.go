package docsite

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

//go:embed static
var static embed.FS

// page is a Markdown file and the HTML page made from it.
type page struct {
	source  string // its file, such as guides/go.md
	Path    string // its place in the site, such as guides/go.html
	Title   string
	Summary string // its first sentence
	HTML    template.HTML

	text     []byte
	ids      map[string]bool // of headings, and those that the text sets
	links    []string        // to pages of the site, relative to this one, as they are written
	sections []section
}

type renderer struct {
	markdown goldmark.Markdown
	pages    map[string]*page // by source
	source   string
}

func newRenderer(pages []*page, source string) *renderer {
	r := &renderer{pages: map[string]*page{}, source: source}
	for _, p := range pages {
		r.pages[p.source] = p
	}
	// The pages are our own, so the HTML in them is passed on.
	r.markdown = goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))
	return r
}

// anchor is a fragment that a page sets itself.
var anchor = regexp.MustCompile(`<a id="([^"]+)">`)

func (r *renderer) render(p *page) error {
	for _, m := range anchor.FindAllSubmatch(p.text, -1) {
		p.ids[string(m[1])] = true
	}
	context := parser.NewContext(parser.WithIDs(headingIDs(p.ids)))
	doc := r.markdown.Parser().Parse(text.NewReader(p.text), parser.WithContext(context))
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if l, is := n.(*ast.Link); is && entering {
			l.Destination = []byte(r.destination(p, string(l.Destination)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	p.divide(doc)
	var out bytes.Buffer
	if err := r.markdown.Renderer().Render(&out, p.text, doc); err != nil {
		return fmt.Errorf("%s: %w", p.source, err)
	}
	p.HTML = template.HTML(out.String())
	return nil
}

// destination turns a link of the repository into one of the site.
func (r *renderer) destination(p *page, to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Path == "" && u.Fragment == "" {
		return to
	}
	if u.Path == "" {
		p.links = append(p.links, to)
		return to
	}
	target := path.Join(path.Dir(p.source), u.Path)
	switch {
	case target == ".." || strings.HasPrefix(target, "../"):
		u.Path = r.source + "/" + strings.TrimPrefix(strings.TrimPrefix(target, ".."), "/")
		if u.Fragment != "" {
			return u.Path + "#" + u.Fragment
		}
		return u.Path
	case path.Ext(target) == ".md":
		p.links = append(p.links, to)
		u.Path = path.Join(path.Dir(u.Path), path.Base(htmlPath(target)))
	}
	return u.String()
}

// checkLinks finds the links of a page to a page or a heading that does not exist.
func (r *renderer) checkLinks(p *page) (broken []error) {
	for _, to := range p.links {
		name, fragment, _ := strings.Cut(to, "#")
		target := p
		if name != "" {
			target = r.pages[path.Join(path.Dir(p.source), name)]
		}
		if target == nil || fragment != "" && !target.ids[fragment] {
			broken = append(broken, fmt.Errorf("%s: the link %s leads nowhere", p.source, to))
		}
	}
	return broken
}

// headingIDs gives headings the fragments that GitHub gives them, so that links work in both. It
// has those of one page.
type headingIDs map[string]bool

func (ids headingIDs) Generate(title []byte, _ ast.NodeKind) []byte {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(title)))
	unique := slug
	for n := 1; ids[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", slug, n)
	}
	ids[unique] = true
	return []byte(unique)
}

func (ids headingIDs) Put(id []byte) { ids[string(id)] = true }
