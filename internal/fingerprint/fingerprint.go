// Package fingerprint removes the variable parts from the text of an error, so that errors with the
// same cause have the same text. Failures with the same fingerprint belong to one group.
//
// It masks what differs from job to job: numbers, ids, UUIDs, hexadecimal digits, quoted strings,
// URLs, mail and network addresses, and paths. It looks only at the shape of a word: the result
// does not depend on which digits a text has.
package fingerprint

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxText is the number of bytes of a text that are read; the rest does not count.
	MaxText = 4096
	// Max is the maximum length of a fingerprint in bytes.
	Max = 512
	// maxQuoted bounds a quoted string. A quote without an end within it is an ordinary character.
	maxQuoted = 1024
)

// The masks. They have no digit, so that a fingerprint is its own fingerprint.
const (
	maskNumber  = "#"
	maskQuoted  = `"…"`
	maskURL     = "<url>"
	maskPath    = "<path>"
	maskAddress = "<address>"
)

// closing has the closing quote of each opening one.
var closing = map[rune]rune{'"': '"', '\'': '\'', '`': '`', '«': '»', '“': '”', '„': '“', '‘': '’'}

// Of returns the fingerprint of a text: valid UTF-8 of at most Max bytes, with single spaces and
// without digits. It is "" for a text without visible characters. It is pure.
func Of(text string) string {
	text = strings.ToValidUTF8(cut(text, MaxText), "\uFFFD")
	var out strings.Builder
	before := ' ' // the character before
	for len(text) > 0 && out.Len() < 2*Max {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case blank(r):
			text = text[size:]
			r = ' '
			if before != ' ' {
				out.WriteByte(' ')
			}
		case closing[r] != 0 && !inWord(before):
			if n := quoted(text, closing[r]); n > 0 {
				out.WriteString(maskQuoted)
				text, r = text[n:], '"'
				break
			}
			fallthrough
		case !inWord(r) && !startsPath(text):
			out.WriteRune(r)
			text = text[size:]
		default:
			n := wordEnd(text)
			out.WriteString(word(text[:n]))
			r, _ = utf8.DecodeLastRuneInString(text[:n])
			text = text[n:]
		}
		before = r
	}
	return strings.TrimSpace(cut(collapse(out.String()), Max))
}

// cut returns the first n bytes of a text, without a character that would be cut in two.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// quoted returns the length of the quoted string at the beginning of a text; 0 if it does not end.
// An apostrophe inside of a word ends nothing.
func quoted(text string, end rune) int {
	_, first := utf8.DecodeRuneInString(text)
	escaped := false
	for i, r := range text[first:min(len(text), maxQuoted)] {
		at := first + i
		switch {
		case r == '\n':
			return 0
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == end:
			next, _ := utf8.DecodeRuneInString(text[at+utf8.RuneLen(r):])
			if end == '"' || end == '`' || !inWord(next) || next == utf8.RuneError {
				return at + utf8.RuneLen(r)
			}
		}
	}
	return 0
}

// startsPath reports whether a path begins here that does not begin with a letter.
func startsPath(text string) bool {
	rest := strings.TrimLeft(text, ".~")
	if len(text)-len(rest) > 2 || !strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, `\\`) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, `/\`))
	return inWord(next) || next == '.'
}

// wordEnd returns the length of the word at the beginning of a text. A word goes on to the next
// space or bracket, so that it has the whole of a URL, an address or a path.
func wordEnd(text string) int {
	n := len(text)
	for i, r := range text {
		if blank(r) || strings.ContainsRune("\"'`<>()[]{}|,;«»“”„‘’", r) {
			n = i
			break
		}
	}
	// Punctuation at the end belongs to the sentence.
	return max(len(strings.TrimRight(text[:n], ".:!?=")), utf8.RuneLen(first(text)))
}

func first(text string) rune {
	r, _ := utf8.DecodeRuneInString(text)
	return r
}

// word masks one word.
func word(w string) string {
	name, value, hasValue := strings.Cut(w, "=")
	scheme, _, isURL := strings.Cut(w, "://")
	switch {
	case isURL && isName(scheme):
		return maskURL
	case hasValue:
		return word(name) + "=" + word(value)
	case isPath(w):
		return maskPath
	case isAddress(w):
		return maskAddress
	case isUUID(w):
		return maskNumber
	}
	var b strings.Builder
	for len(w) > 0 {
		n := strings.IndexFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		switch n {
		case 0:
			r, size := utf8.DecodeRuneInString(w)
			b.WriteRune(r)
			w = w[size:]
			continue
		case -1:
			n = len(w)
		}
		b.WriteString(segment(w[:n]))
		w = w[n:]
	}
	return b.String()
}

// isName reports whether a text has only letters, digits and what may stand between them in the
// scheme of a URL.
func isName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !inWord(r) && r != '+' && r != '-' && r != '.' }) < 0
}

// isPath reports whether a word is a path of Unix or Windows.
func isPath(w string) bool {
	if startsPath(w) {
		return true
	}
	if len(w) > 3 && unicode.IsLetter(rune(w[0])) && w[1] == ':' && (w[2] == '\\' || w[2] == '/') {
		return true
	}
	dir, file, ok := strings.Cut(w, "/")
	return ok && dir != "" && strings.Contains(file, "/") // such as a/b/c, and not and/or
}

// isAddress reports whether a word is a mail address, an IP address or a host with a port.
func isAddress(w string) bool {
	user, host, mail := strings.Cut(w, "@")
	if mail && user != "" && isHost(host) {
		return true
	}
	if isIP6(w) {
		return true
	}
	host, port, hasPort := strings.Cut(w, ":")
	if hasPort && !isDigits(port) {
		return false
	}
	dots := strings.Split(host, ".")
	ip := len(dots) == 4
	for _, part := range dots {
		ip = ip && isDigits(part) && len(part) <= 3
	}
	return ip || hasPort && isHost(host) && (len(dots) > 1 || host == "localhost")
}

// isHost reports whether a text has the form of a host name. It begins with a letter or a digit.
func isHost(s string) bool {
	return s != "" && inWord(first(s)) && isName(s)
}

func isDigits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsDigit(r) }) < 0
}

// isIP6 reports whether a word has the form of an IPv6 address: at least three colons, or two
// together, between hexadecimal digits.
func isIP6(w string) bool {
	w, _, _ = strings.Cut(w, "%")
	colons := strings.Count(w, ":")
	return len(w) > 2 && (colons >= 4 || colons >= 2 && strings.Contains(w, "::")) && strings.IndexFunc(w, func(r rune) bool { return !isHex(r) && r != ':' && r != '.' }) < 0
}

func isHex(r rune) bool {
	return r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F' || unicode.IsDigit(r)
}

// isUUID reports whether a word is a UUID.
func isUUID(w string) bool {
	w = strings.TrimPrefix(w, "urn:uuid:")
	parts := strings.Split(w, "-")
	if len(parts) != 5 {
		return false
	}
	for i, n := range []int{8, 4, 4, 4, 12} {
		if utf8.RuneCountInString(parts[i]) != n || strings.IndexFunc(parts[i], func(r rune) bool { return !isHex(r) }) >= 0 {
			return false
		}
	}
	return true
}

const (
	minHex = 4  // shorter ones look like ordinary words with a digit
	minID  = 16 // letters and digits of this length are an id of any alphabet
)

// segment masks letters and digits without anything between them.
func segment(s string) string {
	letters, digits, hex := 0, 0, true
	for _, r := range s {
		if unicode.IsDigit(r) {
			digits++
		} else {
			letters++
		}
		hex = hex && isHex(r)
	}
	n := letters + digits
	_, after := utf8.DecodeRuneInString(s)
	literal := n > 2 && unicode.IsDigit(first(s)) && (s[after] == 'x' || s[after] == 'X') && strings.IndexFunc(s[after+1:], func(r rune) bool { return !isHex(r) }) < 0
	switch {
	case digits == 0:
		return s
	case letters == 0, hex && n >= minHex, n >= minID, literal:
		return maskNumber
	}
	var b strings.Builder
	number := false
	for _, r := range s {
		if digit := unicode.IsDigit(r); !digit {
			b.WriteRune(r)
			number = false
		} else if !number {
			b.WriteString(maskNumber)
			number = true
		}
	}
	return b.String()
}

// collapse makes one mask of numbers that follow each other, such as those of a list or a date.
func collapse(s string) string {
	const gaps = " ,-.:/+_"
	var b strings.Builder
	for i := 0; i < len(s); {
		b.WriteByte(s[i])
		mask := s[i] == '#'
		i++
		for mask {
			gap := i
			for gap < len(s) && gap < i+2 && strings.IndexByte(gaps, s[gap]) >= 0 {
				gap++
			}
			if gap == len(s) || s[gap] != '#' {
				break
			}
			i = gap + 1
		}
	}
	return b.String()
}
