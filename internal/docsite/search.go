package docsite

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

// section is what the search finds: a heading and the text below it, up to the next heading.
type section struct {
	ID    int    `json:"id"`
	URL   string `json:"url"`
	Page  string `json:"page"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// sectionsOf numbers the sections of all pages, as the search wants them.
func sectionsOf(pages []*page) []section {
	all := []section{}
	for _, p := range pages {
		for _, s := range p.sections {
			s.ID, s.Page = len(all), p.Title
			all = append(all, s)
		}
	}
	return all
}

// divide finds the title of a page, its first sentence and its sections.
func (p *page) divide(doc ast.Node) {
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		words := plain(n, p.text)
		h, is := n.(*ast.Heading)
		switch {
		case is:
			s := section{URL: p.Path, Title: words}
			if id, has := h.AttributeString("id"); has && len(p.sections) > 0 {
				s.URL += "#" + string(id.([]byte))
			}
			p.sections = append(p.sections, s)
			if h.Level == 1 && p.Title == "" {
				p.Title = words
			}
			continue
		case len(p.sections) == 0: // before the title
			p.sections = append(p.sections, section{URL: p.Path, Title: p.source})
		}
		if _, is := n.(*ast.Paragraph); is && p.Summary == "" {
			sentence, _, _ := strings.Cut(words, ". ")
			p.Summary = strings.TrimSuffix(sentence, ".") + "."
		}
		last := &p.sections[len(p.sections)-1]
		last.Text = strings.TrimSpace(last.Text + " " + words)
	}
	if p.Title == "" {
		p.Title = p.source
	}
}

// plain is the text of a node without its form, in one line.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			out.Write(n.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.AutoLink:
			out.Write(n.Label(source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			out.WriteByte(' ')
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				out.Write(line.Value(source))
			}
		case *ast.Paragraph, *ast.ListItem, *east.TableCell:
			out.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(out.String()), " ")
}
