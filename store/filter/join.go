package filter

import (
	"maps"
	"reflect"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// words are the names of conditions whose fields are called otherwise in Go.
var words = map[string]string{"IDs": "id", "States": "state", "CreatedAfter": "created:>", "CreatedBefore": "created:<", "EndedAfter": "ended:>", "EndedBefore": "ended:<"}

// Join adds the conditions of a filter that was read from text to those that were given in another
// way. A condition that both have is an error.
func Join(f, read sojourn.Filter) (sojourn.Filter, error) {
	fields := maps.Clone(f.Fields)
	for path, value := range read.Fields {
		if _, both := fields[path]; both {
			return sojourn.Filter{}, invalid("%s is given both in the filter's text and beside it; leave one out", path)
		}
		if fields == nil {
			fields = map[string]string{}
		}
		fields[path] = value
	}
	f.Fields, read.Fields = fields, nil
	to, from := reflect.ValueOf(&f).Elem(), reflect.ValueOf(read)
	for i := range from.NumField() {
		if from.Field(i).IsZero() {
			continue
		}
		if !to.Field(i).IsZero() {
			name := from.Type().Field(i).Name
			word := words[name]
			if word == "" {
				word = strings.ToLower(name)
			}
			return sojourn.Filter{}, invalid("%s is given both in the filter's text and beside it; leave one out", word)
		}
		to.Field(i).Set(from.Field(i))
	}
	return f, nil
}
