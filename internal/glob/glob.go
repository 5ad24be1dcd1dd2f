// Package glob compares names with patterns in which * stands for any text. Grants of access tokens
// and the queues of workers use it.
package glob

import "strings"

// Match reports whether name matches pattern. Without a * only the same name matches. The empty
// name matches only *.
func Match(pattern, name string) bool {
	if pattern != "" && strings.Trim(pattern, "*") == "" {
		return true
	}
	if name == "" {
		return false
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(name, p)
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return true
}
