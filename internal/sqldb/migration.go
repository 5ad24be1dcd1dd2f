package sqldb

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Migration is one step of the schema. Each direction is run in one transaction, statement by
// statement.
type Migration struct {
	Version int    // from 1, without gaps
	Name    string // such as "jobs"
	Needs   int    // the least level of programs that can work with the schema after it; see needsLine
	Up      string // statements, see Statements
	Down    string // takes Up back; "" if there is no way back
}

// needsLine is a line of a step up with the oldest program version that can work after it: "--
// needs: 3" is set in a step that only adds objects which programs of version 3 need not know.
// Without it a step needs its own version.
var needsLine = regexp.MustCompile(`(?m)^-- needs: ([0-9]+)$`)

var migrationFile = regexp.MustCompile(`^([0-9]{4})_([a-z0-9_]+)(\.down)?\.sql$`)

// LoadMigrations reads a folder's files NNNN_name.sql and, for the way back, NNNN_name.down.sql,
// ascending by version. A file with another name, a gap in the versions and a text without
// statements are errors.
func LoadMigrations(folder fs.FS) ([]Migration, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, err
	}
	byVersion := map[int]*Migration{}
	for _, e := range entries {
		m := migrationFile.FindStringSubmatch(e.Name())
		if m == nil {
			return nil, fmt.Errorf("migration %s: the name must be NNNN_name.sql or NNNN_name.down.sql", e.Name())
		}
		text, err := fs.ReadFile(folder, e.Name())
		if err != nil {
			return nil, err
		}
		if len(Statements(string(text))) == 0 {
			return nil, fmt.Errorf("migration %s has no statements", e.Name())
		}
		version, _ := strconv.Atoi(m[1])
		step := byVersion[version]
		if step == nil {
			step = &Migration{Version: version, Name: m[2]}
			byVersion[version] = step
		}
		dest := &step.Up
		if m[3] != "" {
			dest = &step.Down
		}
		if step.Name != m[2] || *dest != "" {
			return nil, fmt.Errorf("migration %s: version %d has two names", e.Name(), version)
		}
		*dest = string(text)
	}
	out := make([]Migration, 0, len(byVersion))
	for _, m := range byVersion {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b Migration) int { return cmp.Compare(a.Version, b.Version) })
	for i, m := range out {
		if m.Version != i+1 {
			return nil, fmt.Errorf("migration %04d_%s: version %d is missing", m.Version, m.Name, i+1)
		}
		if out[i].Needs = m.Version; needsLine.MatchString(m.Up) {
			out[i].Needs, _ = strconv.Atoi(needsLine.FindStringSubmatch(m.Up)[1])
		}
		if n := out[i].Needs; n < 1 || n > m.Version || i > 0 && n < out[i-1].Needs {
			return nil, fmt.Errorf("migration %04d_%s needs version %d, which is out of range: from what the step before needs to its own version", m.Version, m.Name, n)
		}
		if m.Up == "" {
			return nil, fmt.Errorf("migration %04d_%s has a way back but no way up", m.Version, m.Name)
		}
	}
	return out, nil
}

// Statements splits a text at its semicolons, but not inside quotes, comments and dollar quotes.
// Pieces that hold only space and comments are left out. A trigger's body would be cut apart:
// migrations do without triggers.
func Statements(text string) []string {
	var out []string
	start, full := 0, false // full: the piece since start holds more than space and comments
	for i := 0; i < len(text); {
		switch n, kind := lexeme(text[i:]); {
		case kind == ';':
			if full {
				out = append(out, strings.Trim(text[start:i], space))
			}
			i += n
			start, full = i, false
		default:
			full = full || kind == 'x'
			i += n
		}
	}
	if full {
		out = append(out, strings.Trim(text[start:], space))
	}
	return out
}

const space = " \t\n\r\f" // as SQLite and PostgreSQL have it, which is less than Go has

// lexeme measures the first token of s: ' ' for space and comments, ';', or 'x' for anything else.
// An unclosed quote or comment reaches to the end, where the database will report it.
func lexeme(s string) (n int, kind byte) {
	until := func(from int, end string) int {
		if k := strings.Index(s[from:], end); k >= 0 {
			return from + k + len(end)
		}
		return len(s)
	}
	switch c := s[0]; {
	case c == ';':
		return 1, ';'
	case strings.IndexByte(space, c) >= 0:
		return 1, ' '
	case strings.HasPrefix(s, "--"):
		return until(2, "\n"), ' '
	case strings.HasPrefix(s, "/*"):
		return until(2, "*/"), ' '
	case c == '\'' || c == '"': // a doubled quote inside reads as two neighbours, which splits nothing
		return until(1, s[:1]), 'x'
	case c == '$':
		if tag := dollarQuote.FindString(s); tag != "" {
			return until(len(tag), tag), 'x'
		}
	}
	return 1, 'x'
}

var dollarQuote = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z_0-9]*)?\$`)
