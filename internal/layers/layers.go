// Package layers combines settings with patches of them.
//
// Settings are a struct. A patch is a struct with a pointer for each setting, of the same name; nil
// says nothing about it, and a pointer to a zero value says that the setting is off. Other fields
// are ignored. A setting that is itself a pointer has the same type in the patch; off is nil in the
// settings and a pointer to a zero value in the patch. Names are those of the JSON.
package layers

import (
	"reflect"
	"slices"
	"strings"
)

// field is one setting in a type of patches.
type field struct {
	index int
	goName,
	name string
}

// fields lists the settings of a patch: its pointers.
func fields(patch reflect.Type) (list []field) {
	for i := range patch.NumField() {
		if f := patch.Field(i); f.Type.Kind() == reflect.Pointer {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			list = append(list, field{i, f.Name, name})
		}
	}
	return list
}

// Known returns the names of all settings that a patch can have, in their order.
func Known[P any]() (names []string) {
	for _, f := range fields(reflect.TypeFor[P]()) {
		names = append(names, f.name)
	}
	return names
}

// Names returns the names of the settings that p sets.
func Names[P any](p P) (names []string) {
	v := reflect.ValueOf(p)
	for _, f := range fields(v.Type()) {
		if !v.Field(f.index).IsNil() {
			names = append(names, f.name)
		}
	}
	return names
}

// Apply returns the settings with those that p sets replaced.
func Apply[S, P any](settings S, p P) S {
	to, from := reflect.ValueOf(&settings).Elem(), reflect.ValueOf(p)
	for _, f := range fields(from.Type()) {
		v, s := from.Field(f.index), to.FieldByName(f.goName)
		switch {
		case v.IsNil():
		case empty(v.Elem()):
			s.SetZero()
		case s.Type() != v.Type():
			s.Set(v.Elem())
		default:
			s.Set(v)
		}
	}
	return settings
}

// empty reports whether a setting is off.
func empty(v reflect.Value) bool {
	return v.IsZero() || (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0
}

// Merge returns older with the settings of newer. A pointer to a nil map or slice becomes one to an
// empty one, whose JSON is not null.
func Merge[P any](older, newer P) P {
	to, from := reflect.ValueOf(&older).Elem(), reflect.ValueOf(newer)
	for _, f := range fields(to.Type()) {
		if v := from.Field(f.index); !v.IsNil() {
			to.Field(f.index).Set(notNull(v))
		}
	}
	return older
}

// Without returns p without the named settings.
func Without[P any](p P, names []string) P {
	to := reflect.ValueOf(&p).Elem()
	for _, f := range fields(to.Type()) {
		if slices.Contains(names, f.name) {
			to.Field(f.index).SetZero()
		}
	}
	return p
}

// Pick returns the patch that sets the named settings as they are in s.
func Pick[P, S any](s S, names []string) (p P) {
	to, from := reflect.ValueOf(&p).Elem(), reflect.ValueOf(s)
	for _, f := range fields(to.Type()) {
		if slices.Contains(names, f.name) {
			pick(to.Field(f.index), from.FieldByName(f.goName))
		}
	}
	return p
}

// Diff returns the patch that turns the settings from into to.
func Diff[P, S any](from, to S) P {
	var names []string
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	for _, f := range fields(reflect.TypeFor[P]()) {
		if !reflect.DeepEqual(a.FieldByName(f.goName).Interface(), b.FieldByName(f.goName).Interface()) {
			names = append(names, f.name)
		}
	}
	return Pick[P](to, names)
}

// pick lets the pointer of a patch say what the setting is.
func pick(pointer, setting reflect.Value) {
	if setting.Type() == pointer.Type() && !setting.IsNil() {
		setting = setting.Elem()
	}
	pointer.Set(reflect.New(pointer.Type().Elem()))
	if setting.Type() == pointer.Type().Elem() {
		pointer.Elem().Set(setting)
	}
	pointer.Set(notNull(pointer))
}

// notNull returns the pointer, or one to an empty map or slice if it points to nil.
func notNull(pointer reflect.Value) reflect.Value {
	t := pointer.Type().Elem()
	if k := t.Kind(); k != reflect.Map && k != reflect.Slice || !pointer.Elem().IsNil() {
		return pointer
	}
	made := reflect.New(t)
	if t.Kind() == reflect.Map {
		made.Elem().Set(reflect.MakeMap(t))
	} else {
		made.Elem().Set(reflect.MakeSlice(t, 0, 0))
	}
	return made
}
