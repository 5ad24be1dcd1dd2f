// Package mediatype checks the syntax of content types.
package mediatype

import "strings"

// Valid reports whether v is a media type with its parameters, by RFC 9110, section 8.3.1. A
// semicolon may stand at the end.
func Valid(v string) bool {
	essence, parameters, more := strings.Cut(v, ";")
	kind, subtype, ok := strings.Cut(strings.TrimRight(essence, " \t"), "/")
	if !ok || !IsToken(kind) || !IsToken(subtype) {
		return false
	}
	for more {
		parameters = strings.TrimLeft(parameters, " \t")
		name, rest, ok := strings.Cut(parameters, "=")
		if !ok {
			return strings.TrimRight(parameters, " \t") == "" // a semicolon at the end
		}
		if !IsToken(name) {
			return false
		}
		if rest, ok = cutValue(rest); !ok {
			return false
		}
		rest = strings.TrimLeft(rest, " \t")
		if parameters, more = strings.CutPrefix(rest, ";"); !more && rest != "" {
			return false
		}
	}
	return true
}

// cutValue takes the value of a parameter, a token or a quoted string, from the beginning of text.
func cutValue(text string) (rest string, ok bool) {
	quoted, ok := strings.CutPrefix(text, `"`)
	if !ok {
		end := 0
		for end < len(text) && isTokenByte(text[end]) {
			end++
		}
		return text[end:], end > 0
	}
	for i := 0; i < len(quoted); i++ {
		switch c := quoted[i]; {
		case c == '"':
			return quoted[i+1:], true
		case c == '\\':
			i++
			if i == len(quoted) || quoted[i] < ' ' && quoted[i] != '\t' || quoted[i] == 0x7f {
				return "", false
			}
		case c < ' ' && c != '\t' || c >= 0x7f:
			return "", false
		}
	}
	return "", false
}

// IsToken reports whether text is a token of RFC 9110, section 5.6.2.
func IsToken(text string) bool {
	for i := range len(text) {
		if !isTokenByte(text[i]) {
			return false
		}
	}
	return text != ""
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
