package configcmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/sojourn-queue/sojourn"
)

// entry is what the file says about one setting.
type entry struct {
	text  string
	place string // file:line:column
}

// parseConfig reads a file of settings. What is not a setting is refused where it stands, because a
// misspelt one would be dropped silently.
func parseConfig(name string, text []byte, known []setting) (map[string]entry, []declared, error) {
	var whole map[string]any
	if err := toml.Unmarshal(text, &whole); err != nil {
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := e.Position()
			return nil, nil, sojourn.Invalid("config", "%s:%d:%d: %s", name, row, column, strings.TrimPrefix(e.Error(), "toml: "))
		}
		return nil, nil, sojourn.Invalid("config", "%s: %v", name, err)
	}
	var keys, tables []string
	lists := map[string]bool{}
	for _, s := range known {
		keys, lists[s.key] = append(keys, s.key), s.list
		if table, _, ok := strings.Cut(s.key, "."); ok {
			tables = append(tables, table)
		}
	}
	found := map[string]entry{}
	var p unstable.Parser
	p.Reset(text)
	prefix, inSchedules := "", false
	var places []string // of the tables of schedules
	for p.NextExpression() {
		e := p.Expression()
		key, place := keyOf(&p, e, name)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			if key == scheduleKey && e.Kind == unstable.ArrayTable {
				places = append(places, place)
			}
			if inSchedules = key == scheduleKey && e.Kind == unstable.ArrayTable || strings.HasPrefix(key, scheduleKey+".") && len(places) > 0; inSchedules {
				continue
			}
			prefix = key + "."
			if !slices.Contains(tables, key) || e.Kind == unstable.ArrayTable {
				return nil, nil, sojourn.Invalid("config", "%s: there is no table %.64q%s", place, key, hintOf(key, tables))
			}
		case unstable.KeyValue:
			if inSchedules {
				continue // schedulesOf reads the whole table
			}
			key = strings.TrimPrefix(prefix+key, ".")
			if !slices.Contains(keys, key) {
				return nil, nil, sojourn.Invalid("config", "%s: there is no setting %.64q%s", place, key, hintOf(key, keys))
			}
			value, err := textOf(e.Value(), key, lists[key])
			if err != nil {
				return nil, nil, sojourn.Invalid("config", "%s: %v", place, err)
			}
			found[key] = entry{value, place}
		}
	}
	if err := p.Error(); err != nil {
		return nil, nil, err
	}
	schedules, err := schedulesOf(whole["schedule"], places)
	return found, schedules, err
}

// textOf is a value as a flag takes it.
func textOf(v *unstable.Node, key string, list bool) (string, error) {
	switch {
	case v.Kind == unstable.Array && list:
		var all []string
		for i := v.Children(); i.Next(); {
			text, err := textOf(i.Node(), key, false)
			if err != nil || strings.Contains(text, ",") {
				return "", fmt.Errorf("%s must be a list of strings without commas", key)
			}
			all = append(all, text)
		}
		return strings.Join(all, ","), nil
	case v.Kind == unstable.String, v.Kind == unstable.Integer, v.Kind == unstable.Bool, v.Kind == unstable.Float:
		return string(v.Data), nil
	}
	return "", fmt.Errorf("%s must be a string, a number, true or false; write durations as strings such as \"30s\"", key)
}

// keyOf is the key of an expression, and where it stands.
func keyOf(p *unstable.Parser, e *unstable.Node, file string) (key, place string) {
	var parts []string
	if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable && e.Kind != unstable.KeyValue {
		return "", ""
	}
	for k := e.Key(); k.Next(); {
		if place == "" {
			at := p.Shape(k.Node().Raw).Start
			place = fmt.Sprintf("%s:%d:%d", file, at.Line, at.Column)
		}
		parts = append(parts, string(k.Node().Data))
	}
	return strings.Join(parts, "."), place
}
