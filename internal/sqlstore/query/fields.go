package query

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonfield"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// maxIndexes bounds the queues that a filter without a queue reads, one after another.
	maxIndexes = 100
	// maxTail bounds the results that are compared one by one, because they are not indexed yet.
	maxTail = 100_000
)

// qTail reads the results that are not indexed yet.
const qTail = `select f.id, f.result from sj_final f where f.queue = $1 and f.state = 7 and f.finished_us > $2 order by f.finished_us limit $3`

// eachPart calls read for each part of a filter. A filter by values of JSON has a part for each
// queue that indexes their paths. If a path is of results, its queues have two: the jobs whose
// results are indexed, and those that have ended since. Other filters have one part.
func eachPart(t *txn.Tx, f sojourn.Filter, read func(sojourn.Filter) error) error {
	if len(f.Fields) == 0 {
		f.Fields = nil
		return read(f)
	}
	indexes, err := indexesFor(t, f)
	if err != nil {
		return err
	}
	results := resultsOf(f)
	for i := range indexes {
		x, part := &indexes[i], f
		part.Queue = x.Queue
		if results == nil {
			if err := read(part); err != nil {
				return err
			}
			continue
		}
		tail, err := unindexed(t, f, results, x)
		if err != nil {
			return err
		}
		// Results have completed jobs only. A job that ended at the mark is indexed.
		if part.States = completedOf(f.States); part.Empty() {
			continue
		}
		if until := jobrow.Time(x.Mark + 1); f.EndedBefore.IsZero() || until.Before(f.EndedBefore) {
			part.EndedBefore = until
		}
		if err := read(part); err != nil {
			return err
		}
		if part.EndedBefore, part.Fields = f.EndedBefore, without(f.Fields, results); part.Fields == nil {
			part.Queue = "" // the ids are of the queue
		}
		for ids := range slices.Chunk(tail, sojourn.MaxFind) {
			part.IDs = ids
			if err := read(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexesFor reads the indexes that a filter uses. The error says which path has none, or that it
// is not complete.
func indexesFor(t *txn.Tx, f sojourn.Filter) (all []field.Index, err error) {
	for path, value := range f.Fields {
		if why := jsonfield.Valid(path); why != "" {
			return nil, sojourn.Invalid("fields", "%s", why)
		}
		if value == "" || len(value) > jsonfield.MaxValue {
			return nil, sojourn.Invalid(path, "a value of %d bytes is not indexed: 1 to %d are", len(value), jsonfield.MaxValue)
		}
		if !utf8.ValidString(value) || strings.Contains(value, "\x00") {
			return nil, sojourn.Invalid(path, "%.64q is not UTF-8, or has a NUL", value)
		}
	}
	var has []string // paths of the queue
	if f.Queue != "" {
		x, found, err := field.Of(t, f.Queue)
		if found {
			all, has = append(all, x), slices.Clone(x.Paths)
		}
		if err != nil {
			return nil, err
		}
	} else if all, err = field.All(t); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(f.Fields)) {
		all = slices.DeleteFunc(all, func(x field.Index) bool { return !slices.Contains(x.Paths, path) })
		switch {
		case len(all) > 0:
		case f.Queue == "":
			return nil, sojourn.Invalid(path, "no queue indexes all paths of this filter; add it with \"sojourn queue set QUEUE --index %s\"", strings.Join(slices.Sorted(maps.Keys(f.Fields)), ","))
		default:
			return nil, sojourn.Invalid(path, "queue %s does not index it; add it with \"sojourn queue set %[1]s --index %s\"", f.Queue, strings.Join(append(has, path), ","))
		}
	}
	if len(all) > maxIndexes {
		return nil, sojourn.Invalid("queue", "%d queues index these paths; name one", len(all))
	}
	for _, x := range all {
		if !x.Complete() {
			return nil, &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "where", Index: -1, Retryable: true,
				Message: "the index of queue " + x.Queue + " is being built; try again in a moment"}
		}
	}
	return all, nil
}

// resultsOf returns the paths of results in a filter.
func resultsOf(f sojourn.Filter) (paths []string) {
	for _, path := range slices.Sorted(maps.Keys(f.Fields)) {
		if jsonfield.Root(path) == jsonfield.Result {
			paths = append(paths, path)
		}
	}
	return paths
}

func completedOf(states []sojourn.State) []sojourn.State {
	if len(states) > 0 && !slices.Contains(states, sojourn.Completed) {
		return []sojourn.State{}
	}
	return []sojourn.State{sojourn.Completed}
}

func without(fields map[string]string, paths []string) map[string]string {
	rest := maps.Clone(fields)
	for _, path := range paths {
		delete(rest, path)
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}

// unindexed returns the jobs that have completed after the mark of an index and have the results of
// a filter.
func unindexed(t *txn.Tx, f sojourn.Filter, paths []string, x *field.Index) (ids []sojourn.ID, err error) {
	n := 0
	err = t.Read(qTail, func(r sqldb.Row) error {
		n++
		met := 0
		jsonfield.Source{Result: r.Bytes(1)}.Values(paths, func(path, value string) {
			if f.Fields[path] == value {
				met++
			}
		})
		if id := sojourn.ID(r.Int(0)); met == len(paths) && (f.IDs == nil || slices.Contains(f.IDs, id)) {
			ids = append(ids, id)
		}
		return nil
	}, x.Queue, x.Mark, maxTail+1)
	if err == nil && n > maxTail {
		err = &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "where", Index: -1, Retryable: true,
			Message: "the results of more than " + strconv.Itoa(maxTail) + " jobs of queue " + x.Queue + " are not indexed yet; try again in a moment"}
	}
	return ids, err
}

// byField reports whether a filter finds its jobs by a value. One that names few jobs in another
// way looks up the values of each.
func byField(f sojourn.Filter) bool {
	return f.Fields != nil && f.IDs == nil && f.ParentsOf == 0 && f.ChildrenOf == 0 && f.AwaitedBy == 0 && f.Failure == ""
}

// addFields adds the conditions about values, of a filter with a queue.
func (w *conditions) addFields(a string, f sojourn.Filter) {
	for i, path := range slices.Sorted(maps.Keys(f.Fields)) {
		if i == 0 && byField(f) {
			w.add("d.queue = %s", f.Queue)
			w.add("d.path = %s", path)
			w.add("d.value = %s and "+a+".id = d.job", f.Fields[path])
			continue
		}
		n := strconv.Itoa(i) // || '' keeps planners from reading all jobs of the queue instead of the ids
		w.add("exists (select 1 from sj_field d"+n+" where d"+n+".job = "+a+".id and d"+n+".queue = "+a+".queue || '' and d"+n+".queue = %s", f.Queue)
		w.add("d"+n+".path = %s", path)
		w.add("d"+n+".value = %s)", f.Fields[path])
	}
}
