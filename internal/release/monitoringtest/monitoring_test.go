package monitoringtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const folder = "../deploy/monitoring/"

// metrics are those of docs/reference/metrics.md with their labels, by name. Tests of
// httpapi/server and of the command compare the page with what real programs serve.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(sojourn_[a-z_]+)` \\| ([a-z]+) \\| (.*?)\\|").FindAllStringSubmatch(string(page), -1) {
		of := []string{"instance", "pod", "job"}
		for _, l := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row[3], -1) {
			of = append(of, l[1])
		}
		if row[2] == "histogram" {
			all[row[1]+"_bucket"] = append(of, "le")
			all[row[1]+"_sum"], all[row[1]+"_count"] = of, of
			continue
		}
		all[row[1]] = of
	}
	return all
}

// check parses an expression, and compares its names with the metrics.
func check(t *testing.T, known map[string][]string, where, expr string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return
	}
	found := map[string]bool{}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		of, ok := known[v.Name]
		if !ok {
			t.Errorf("%s: there is no metric %s", where, v.Name)
		}
		for _, l := range of {
			found[l] = true
		}
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName && !contains(of, m.Name) {
				t.Errorf("%s: %s has no label %s", where, v.Name, m.Name)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !found[l] {
					t.Errorf("%s: %s groups by %s, which no metric has", where, expr, l)
				}
			}
		}
		return nil
	})
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

func TestAlerts(t *testing.T) {
	groups, errs := rulefmt.ParseFile(folder+"alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	known, n := metrics(t), 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			n++
			check(t, known, r.Alert, r.Expr)
		}
	}
	if n < 10 {
		t.Errorf("%d alerts", n)
	}
	if path, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.Command(path, "check", "rules", folder+"alerts.yaml").CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

func TestDashboard(t *testing.T) {
	b, err := os.ReadFile(folder + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	known, n := metrics(t), 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			n++
			check(t, known, p.Title, strings.ReplaceAll(target.Expr, "$queue", ".*"))
		}
	}
	if n < 20 {
		t.Errorf("%d queries", n)
	}
}
