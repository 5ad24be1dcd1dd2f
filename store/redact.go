package store

import (
	"net/url"
	"regexp"
	"strings"
)

// shownParameters of an address are no secrets. All others are left out, because new parameters
// with secrets come up.
var shownParameters = []string{"schema", "prefix"}

// keyword is the beginning of a connection string such as "host=db password=secret".
var keyword = regexp.MustCompile(`^\s*[A-Za-z_]+\s*=`)

// Redact returns an address without its passwords, so that it can be shown. The address may have
// any form and may be malformed.
func Redact(address string) string {
	scheme, _, isURL := strings.Cut(address, "://")
	switch {
	case isJSON(address):
		return "the database of a JSON object"
	case keyword.MatchString(address) || !isURL && strings.Contains(address, "password"):
		return "the database of a connection string"
	case !isURL && strings.Contains(address, "@"):
		return "…"
	case !isURL:
		file, parameters, _ := strings.Cut(address, "?")
		if q, err := url.ParseQuery(parameters); err == nil && len(shownOf(q)) > 0 {
			file += "?" + shownOf(q).Encode()
		}
		return file
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.Contains(u.Host, "@") {
		return scheme + "://…"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
		if _, has := u.User.Password(); has {
			shown.User = url.UserPassword(name, "xxxxx")
		}
	}
	shown.RawQuery = shownOf(u.Query()).Encode()
	return shown.String()
}

func shownOf(all url.Values) url.Values {
	shown := url.Values{}
	for _, name := range shownParameters {
		if all.Has(name) {
			shown[name] = all[name]
		}
	}
	return shown
}
