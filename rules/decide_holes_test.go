package rules

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// worldScenes are what the world is walked for.
func worldScenes() []*worldScene {
	scene := func(name string, f func(sc *worldScene)) *worldScene {
		sc := &worldScene{laws: ours(), name: name, keys: [worldJobs]string{"a", "b"}, sent: [worldSent]KeptResponse{ok(0, "a"), ok(0, "b")}, limit: 1, crashes: 2}
		f(sc)
		return sc
	}
	return []*worldScene{
		scene("two jobs at a limit of one", func(sc *worldScene) { sc.budget[leases], sc.budget[loses] = 1, 1 }),
		scene("two jobs at a limit of two", func(sc *worldScene) { sc.limit, sc.crashes, sc.budget[leases] = 2, 1, 1 }),
		scene("a retry handler", func(sc *worldScene) { sc.handler, sc.sent[1].Key, sc.budget[leases] = true, "", 1 }),
		scene("one key", func(sc *worldScene) {
			sc.keys, sc.sent[1] = [worldJobs]string{"a", "a"}, ok(0, "a")
			sc.limit, sc.crashes, sc.budget[redoes], sc.budget[cancels] = 2, 1, 1, 1
		}),
		scene("an id again", func(sc *worldScene) {
			sc.keys[1], sc.sent = "", [worldSent]KeptResponse{ok(0, "a")}
			sc.budget[prunes], sc.budget[cancels] = 1, 1
		}),
		scene("three lost answers, honest workers", func(sc *worldScene) {
			sc.keys[1], sc.sent = "", [worldSent]KeptResponse{ok(0, "a")}
			sc.crashes, sc.budget[loses] = 3, 3
		}),
		scene("a response is sent again", func(sc *worldScene) {
			sc.keys[1], sc.sent = "", [worldSent]KeptResponse{ok(0, "a"), ok(0, "a")}
			sc.budget[repeats], sc.budget[dies] = 1, 1
		}),
		scene("polls", func(sc *worldScene) {
			sc.polls, sc.keys[1], sc.sent = true, "", [worldSent]KeptResponse{ok(0, "a"), bad(0, "a")}
			sc.crashes, sc.budget[leases], sc.budget[loses] = 2, 1, 1
		}),
		scene("polls of a wait for all keys", func(sc *worldScene) {
			sc.polls, sc.awaits, sc.keys[1] = true, sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}}, ""
			sc.budget[leases] = 1
		}),
		scene("a wait for both keys", func(sc *worldScene) {
			sc.awaits, sc.limit, sc.crashes = sojourn.Wait{Mode: sojourn.WaitAny, Keys: []string{"a", "b"}}, 2, 1
		}),
	}
}

// worldStates bounds the states of a scene; SOJOURN_WALK_STATES sets more.
func worldStates() int {
	if n, err := strconv.Atoi(os.Getenv("SOJOURN_WALK_STATES")); err == nil {
		return n
	}
	return 15_000
}

// Three workers, two jobs and two responses break no law, for all events in any order.
func TestWalkTheWorld(t *testing.T) {
	began, total := time.Now(), 0
	for _, sc := range worldScenes() {
		n, found := sc.walk(worldStates())
		if found != nil {
			t.Error(found)
		}
		to := "to its end"
		if n >= worldStates() {
			to = "as far as SOJOURN_WALK_STATES lets it"
		}
		t.Logf("%s: %d states, %s", sc.name, n, to)
		total += n
	}
	t.Logf("%d states, no breach, in %v", total, time.Since(began).Round(time.Millisecond))
}

// holes are the rules that only show with several jobs and workers, each switched off.
var holes = []struct {
	rule, scene, breaks string
	off                 string
	wrong               func(laws) laws
}{
	{"rules:A1 the fence asks for the running state", "two jobs at a limit of one", "whose lease had ended", "A1", nil},
	{"rules:A2 an ended lease is remembered with its outcome", "two jobs at a limit of one", "told lost", "A2", nil},
	{"rules:A3 a repeated claim is answered with the same jobs", "three lost answers, honest workers", "no handler was ever started", "A3", nil},
	{"rules:A6 an id is inserted once, and the fence asks for the worker", "an id again", "whose lease had ended", "A6id A6", nil},
	{"rules:B3 a late response holds no weight", "two jobs at a limit of one", "more weight",
		"", after("M3", func(r Row, t *Transition) { t.To.Resumed, t.To.Held, t.To.AttemptOpen = true, r.Weight, true })},
	{"rules:B5 what an ended job leaves over is late", "one key", "answer to another one", "B5", nil},
	{"rules:B8 a message id is known for ever", "a response is sent again", "taken twice", "B8", nil},
	{"rules:B9 nothing expires beside a live job of its key", "two jobs at a limit of one", "expired beside", "B9", nil},
	{"rules:B9 an Await looks into the inbox", "two jobs at a limit of one", "lies in the inbox", "inbox", nil},
	{"rules:B10 an awaited key has one owner", "a wait for both keys", "two live jobs have one key", "B10", nil},
	{"tr:P4 the answer that came first wins", "polls", "came before its answer", "P4", nil},
	{"tr:O4 a redrive looks at the key", "one key", "two live jobs have one key", "O4", nil},
	{"rules:C1 errored is left without a worker's decision", "a retry handler", "no way to the end",
		"", func(l laws) laws { return without(EventDecideOverdue)(refuseDecisions(l)) }},
	{"rules:C4 a wait ends", "a response is sent again", "no way to the end", "", without(EventTimedOut)},
	{"rules:D1 an error gives the weight back", "a response is sent again", "no way to the end", "", after("F2 W1", func(r Row, t *Transition) { t.To.Held = r.Held })},
}

// refuseDecisions is a world in which no worker has the retry handler any more.
func refuseDecisions(l laws) laws {
	decide := l.decide
	l.decide = func(r Row, e Event) (Transition, error) {
		if e.Type == EventClaimed && r.State == sojourn.Errored {
			return impossible(r, e)
		}
		return decide(r, e)
	}
	return l
}

// The walk of the world can fail: it finds each hole again when its rule is switched off.
func TestWalkFindsHoles(t *testing.T) {
	caught := 0
	for _, h := range holes {
		t.Run(h.rule, func(t *testing.T) {
			for _, sc := range worldScenes() {
				if sc.name != h.scene {
					continue
				}
				sc.off = h.off
				if h.wrong != nil {
					sc.laws = h.wrong(sc.laws)
				}
				_, found := sc.walk(200_000)
				if found == nil || !strings.Contains(found.law, h.breaks) {
					t.Fatalf("found %v; want a breach of: %s", found, h.breaks)
				}
				caught++
				t.Log(found)
			}
		})
	}
	t.Logf("%d of %d rules found again; the walk of one job finds %d more", caught, len(holes), len(mutants))
}
