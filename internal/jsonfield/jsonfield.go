// Package jsonfield reads single values out of the JSON of jobs, by paths such as args.customer.id.
// A queue indexes the paths that its settings declare, and filters compare their values as text.
package jsonfield

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of paths and values.
const (
	MaxPaths = 8   // of a queue
	MaxPath  = 128 // bytes
	MaxValue = 256 // bytes; a longer value is not indexed
)

// The roots of paths.
const (
	Args   = "args"
	Meta   = "meta"
	Result = "result"
)

// IsPath reports whether a name is meant as a path: it begins with a root and a dot.
func IsPath(name string) bool {
	root, _, ok := strings.Cut(name, ".")
	return ok && (root == Args || root == Meta || root == Result)
}

// Valid returns the problem of a path, "" if it is well-formed. All after "meta." is one key.
func Valid(path string) string {
	root, rest, _ := strings.Cut(path, ".")
	switch {
	case !IsPath(path):
		return fmt.Sprintf("%.64q does not begin with args., result. or meta.", path)
	case len(path) > MaxPath || !utf8.ValidString(path):
		return fmt.Sprintf("%.64q is longer than %d bytes, or not UTF-8", path, MaxPath)
	case strings.ContainsFunc(path, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`:,"<>`, r)
	}):
		return fmt.Sprintf("%.64q has a space or one of : , \" < > in it, and cannot be written in a filter", path)
	case rest == "" || root != Meta && (strings.HasPrefix(rest, ".") || strings.HasSuffix(rest, ".") || strings.Contains(rest, "..")):
		return fmt.Sprintf("%.64q has an empty name; write a path such as args.customer.id", path)
	}
	return ""
}

// Root returns the root of a path.
func Root(path string) string {
	root, _, _ := strings.Cut(path, ".")
	return root
}

// Source is the JSON of a job. Meta is an object of texts; empty bytes have no values.
type Source struct{ Args, Meta, Result []byte }

// Values passes on the values at those of the paths that lead to one. Bytes that are not JSON have
// none.
func (s Source) Values(paths []string, each func(path, value string)) {
	objects := map[string]map[string]json.RawMessage{} // by path; nil: not an object
	for _, path := range paths {
		root, rest, _ := strings.Cut(path, ".")
		raw := map[string][]byte{Args: s.Args, Meta: s.Meta, Result: s.Result}[root]
		if len(raw) == 0 {
			continue
		}
		names := []string{rest}
		if root != Meta {
			names = strings.Split(rest, ".")
		}
		at := root
		for _, name := range names {
			object, read := objects[at]
			if !read {
				if json.Unmarshal(raw, &object) != nil {
					object = nil
				}
				objects[at] = object
			}
			raw, at = object[name], at+"."+name
		}
		if v := Text(raw); v != "" {
			each(path, v)
		}
	}
}

// Text returns a JSON value as filters compare it: a text without its quotes, a number in its
// shortest form, true or false. It is "" for values that are not indexed: null, objects, arrays,
// the empty text, texts with a NUL, and those above MaxValue.
func Text(raw []byte) string {
	v := ""
	switch {
	case len(raw) == 0:
	case raw[0] == '"':
		if json.Unmarshal(raw, &v) != nil || strings.Contains(v, "\x00") {
			return ""
		}
	case raw[0] == 't', raw[0] == 'f':
		v = string(raw)
	case raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9':
		v = number(string(raw))
	}
	if len(v) > MaxValue {
		return ""
	}
	return v
}

// number returns a JSON number in its shortest form. An integer keeps all of its digits; others are
// floating-point numbers of 64 bits, with an exponent from 1e21 on and below 1e-6.
func number(text string) string {
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			return "0"
		}
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	switch abs := max(f, -f); {
	case err != nil:
		return text
	case f == 0:
		return "0"
	case abs >= 1e21 || abs < 1e-6:
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
