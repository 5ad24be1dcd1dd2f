// Package rule holds rules in CEL, the Common Expression Language. It is the only package that
// links CEL: a program that uses no rules carries none of it.
//
// A rule is compiled once, and its types are checked then; an error names line and column. Its cost
// is bounded three times: by the size of the text, by CEL's own count of steps, and by a time
// budget. A compiled rule is safe for concurrent use.
//
// Rules throttle queues: see [Throttler] for the input and the results of such a rule, and
// [Throttlers] for passing them to a store. Rules also convert messages of a source: see [Match].
package rule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/sojourn-queue/sojourn"
)

// Bounds of one evaluation and of a text.
const (
	DefaultCost   = 100_000               // steps as CEL counts them: a look at 1,000 jobs in flight is about 10,000
	DefaultBudget = 50 * time.Millisecond // time
	maxDepth      = 64                    // of nested expressions
	checkEvery    = 100                   // steps of a loop between two looks at the clock
)

// Option changes the bounds of rules.
type Option func(*bounds)

type bounds struct {
	cost   uint64
	budget time.Duration
}

// Cost bounds the steps of one evaluation, as CEL counts them: 1 and more, default DefaultCost.
func Cost(steps uint64) Option { return func(b *bounds) { b.cost = steps } }

// Budget bounds the time of one evaluation: more than 0, default DefaultBudget.
func Budget(d time.Duration) Option { return func(b *bounds) { b.budget = d } }

func newBounds(list []Option) (bounds, error) {
	b := bounds{DefaultCost, DefaultBudget}
	for _, o := range list {
		o(&b)
	}
	if b.cost < 1 || b.budget <= 0 {
		return b, sojourn.Invalid("rule", "cost %d and budget %v must be more than 0", b.cost, b.budget)
	}
	return b, nil
}

// program is one compiled expression.
type program struct {
	run    cel.Program
	budget time.Duration
	places *ast.SourceInfo
}

// compile checks the text against an environment and wants one of the types as its result, any if
// there are none. field names the text in errors.
func compile(env *cel.Env, field, text string, b bounds, results ...*cel.Type) (*program, error) {
	if len(text) > sojourn.MaxRule {
		return nil, sojourn.TooLarge(field, len(text), sojourn.MaxRule)
	}
	if strings.TrimSpace(text) == "" {
		return nil, sojourn.Invalid(field, "the rule is empty")
	}
	checked, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		return nil, issuesOf(field, issues)
	}
	fits := len(results) == 0
	names := make([]string, len(results))
	for i, r := range results {
		fits = fits || checked.OutputType().IsExactType(r)
		names[i] = r.String()
	}
	if !fits {
		return nil, sojourn.Invalid(field, "1:1: the rule gives %s; it must give %s", checked.OutputType(), strings.Join(names, " or "))
	}
	run, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(b.cost), cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, sojourn.Invalid(field, "%v", err) // such as a constant regular expression that does not parse
	}
	return &program{run, b.budget, checked.NativeRep().SourceInfo()}, nil
}

// issuesOf makes one error of what the compiler found, each with its line and column from 1.
func issuesOf(field string, issues *cel.Issues) error {
	var lines []string
	for i, e := range issues.Errors() {
		if i == 5 {
			lines = append(lines, fmt.Sprintf("and %d more", len(issues.Errors())-i))
			break
		}
		lines = append(lines, fmt.Sprintf("%d:%d: %s", max(e.Location.Line(), 1), max(e.Location.Column()+1, 1), e.Message))
	}
	return sojourn.Invalid(field, "%s", sojourn.Cut(strings.Join(lines, "; "), sojourn.MaxProgress))
}

// eval runs the program within its bounds. vars is a map or an Activation.
func (p *program) eval(ctx context.Context, vars any) (v ref.Val, err error) {
	bounded, cancel := context.WithTimeout(ctx, p.budget)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("the rule panicked: %v", r)
		}
	}()
	v, _, err = p.run.ContextEval(bounded, vars)
	if err != nil && bounded.Err() != nil {
		err = errors.Join(fmt.Errorf("the rule took longer than %v", p.budget), context.Cause(bounded))
	}
	return v, err
}

// place is where in the text an error of an evaluation arose, as "line:column: " from 1, or nothing
// if that is not known.
func (p *program) place(err error) string {
	e, ok := errors.AsType[*types.Err](err)
	if !ok || e.NodeID() == 0 {
		return ""
	}
	at := p.places.GetStartLocation(e.NodeID())
	if at.Line() < 1 {
		return ""
	}
	return fmt.Sprintf("%d:%d: ", at.Line(), at.Column()+1)
}
