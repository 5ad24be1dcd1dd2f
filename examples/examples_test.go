// Package examples_test runs the examples as their users do, and compares their output.
package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/brokertest"
	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// stories are what the examples print, one regular expression a line. Each folder has one, but for
// readme, which has its own test.
var stories = []struct {
	folder string // spec:H8
	covers string
	lines  []string
}{
	{"hello", "spec:H8 simple", []string{`hello, world`, `job 1 is completed: "greeted world"`}},
	{"retries", "spec:H8 retries, tr:F2, tr:F3, tr:F8", []string{`pauses: 50ms 100ms 200ms`,
		`good`, `  attempt 1 fails`, `  attempt 2 fails`, `  completed: attempt 3, failures 2, reason "", error ""`,
		`stolen`, `  failed: attempt 1, failures 0, reason "card_declined", error "the bank says no"`,
		`unlucky`, `  attempt 1 fails`, `  attempt 2 fails`, `  attempt 3 fails`,
		`  failed: attempt 3, failures 3, reason "gateway_busy", error "the gateway answers 503"`}},
	{"throttler-go", "spec:K4 spec:K5", []string{`in flight: map\[east:40 north:30 west:30\]`, `a job of the .* waits at the gate "throttle": the slots of .* are taken`}},
	{"throttler-cel", "spec:K4 spec:K5", []string{`in flight: map\[east:40 north:30 west:30\]`, `a job of the .* waits at the gate "throttle": the slots of .* are taken`}},
	{"priority", "spec:H8 priority, inv:W1", []string{`priority   0: forgotten`, `priority   1: urgent`, `priority 100: first normal`,
		`priority 100: second normal`, `priority 500: bulk`, `priority   1: in a moment, but urgent then`}},
	{"windows", "spec:H8, spec:T1, spec:T2, spec:T3, tr:S2, inv:E3", []string{`"no time given": scheduled for Sat 22:00`, `"at 22:30": scheduled for Sat 22:30`,
		`"at noon, which is outside": scheduled for Sun 22:00`, `"on Sunday": scheduled for Sun 05:00`,
		`"in a queue that is open from 2:30 to 6:30": scheduled for Sat 22:00`, `"as soon as the queue opens": ready for Sat 12:00`,
		`Sat 22:00 CEST: no time given`, `Sat 22:30 CEST: at 22:30`, `Sun 02:30 CEST: as soon as the queue opens`, `Sun 05:00 CET: on Sunday`,
		`Sun 05:30 CET: in a queue that is open from 2:30 to 6:30`, `Sun 22:00 CET: at noon, which is outside`}},
	{"nightly-report", "spec:H8, spec:N2, spec:N4, spec:N6, inv:E4", []string{`every day at 02:30, Europe/Berlin`, `  pdf of Fri Mar 27, due Sat 02:30 CET`,
		`  pdf of Sat Mar 28, due Sun 03:00 CEST`, `  pdf of Sun Mar 29, due Mon 02:30 CEST`,
		`an operator pauses it for three days; two missed reports are made up for`, `  pdf of Tue Mar 31, due Wed 02:30 CEST`, `  pdf of Wed Apr 1, due Thu 02:30 CEST`,
		`and one now, on request`, `  pdf of Wed Apr 1, due Thu \d\d:\d\d CEST`, `runs 6, skipped 1`, `next: Fri Apr 3 02:30 CEST, virtual: true`}},
	{"observability", "spec:X2", []string{
		`{"time":".*","level":"WARN","msg":"sojourn: an attempt failed","worker":".*","kind":"charge","queue":"default","job":1,"attempt":1,"reason":"bank_down","error":"no connection","state":"(ready|scheduled)"}`,
		`ship belongs to 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`,
		`sojourn_worker_ended_total{kind="charge",outcome="completed",queue="default",reason=""} 1`,
		`sojourn_worker_ended_total{kind="charge",outcome="error",queue="default",reason="bank_down"} 1`,
		`sojourn_worker_ended_total{kind="ship",outcome="completed",queue="default",reason=""} 1`}},
	{"shutdown", "spec:H8 graceful shutdown, inv:J2, tr:F11", []string{`both run; now the signal comes`, `job 2 stops: worker: shutting down`,
		`job 1 is completed: attempt 1, failures 0, crashes 0`, `job 2 is ready: attempt 1, failures 0, crashes 0`}},
	{"checkpoint", "spec:H8 checkpoint, inv:C4", []string{`attempt 1 begins after customer 0`, `  message to customer 1`, `  message to customer 2`,
		`  message to customer 3`, `  message to customer 4`, `attempt 2 begins after customer 4`, `  message to customer 5`,
		`  message to customer 6`, `  message to customer 7`, `completed after attempt 2, messages sent: 7`}},
	{"expired", "spec:H8 expired retry, tr:W1, tr:L5", []string{`charge, attempt 1: the worker dies`, `fetch, attempt 1: run_timeout`,
		`fetch, attempt 2: failures 1, the last one: run_timeout`, `charge, attempt 2: crashes 1, failures 0; the same idempotency key: true`,
		`the dead worker reports a failure: lost; the job stays completed`}},
	{"await-webhook", "spec:H8, tr:M1, tr:R1", []string{`asked to charge order-42`, `webhook evt-order-42: (applied|early)`,
		`webhook evt-order-42: duplicate`, `completed after attempt 1: {"key":"order-42","approved":true}`}},
	{"approval", "spec:H8, tr:R4, tr:W4, tr:F8", []string{`letter 1: may I pay for a train ticket\?`, `letter 2: may I pay for a train ticket, please\?`,
		`  the answer "no" is stale`, `  the answer "yes" is (applied|early)`, `  completed: "paid for a train ticket"`,
		`letter 1: may I pay for a golden pen\?`, `  the answer "no" is (applied|early)`, `  failed: rejected`}},
	{"await-any", "spec:H8, tr:F5, tr:M1, tr:R6, tr:W4", []string{`order 1 waits for any of paid-1, refused-1`, `  refused-1: applied`, `  paid-1: (early|late)`,
		`  order 1 is failed: the bank has refused it`, `  the other answer is late now`, `order 2 waits for all of stock-2, credit-2`, `  credit-2: early`,
		`  order 2 has an answer from credit-2`, `  stock-2: applied`, `  order 2 is completed: "3 pieces, credit 500"`, `order 3 is given up after silence`,
		`  progress: applied, "half way"`, `  order 3 is failed: beat`}},
	{"poll", "spec:H8, tr:C5, tr:P1, tr:P2, tr:P4", []string{`ask the carrier to fetch the parcel`, `poll 1: on its way`, `poll 2: the carrier answers 503`,
		`poll 3: delivered`, `completed: "delivered", attempt 1, failures 0`, `  await     → awaiting`, `  no_answer → awaiting`, `  no_answer → awaiting 503`,
		`  answer    → ready`, `  completed → completed`}},
	{"approval-link", "spec:H1, spec:H6, tr:R4, tr:R3", []string{`letter 1: may I pay for a train ticket\?`, `letter 2: may I pay for a train ticket\?`,
		`  no, by letter 1: 200 stale`, `  a program that follows links: 405`, `  yes, by letter 2: 200 (applied|early)`, `  completed: "paid for a train ticket"`,
		`  no, by letter 2: 200 late`, `  yes, by a link that somebody made up: 404 not_found`}},
	{"ask-a-person", "spec:H13, spec:H6", []string{`the mail program follows the link: 200 \[Pay\] \[Do not pay\]`, `the person opens the link: 200 \[Pay\] \[Do not pay\]`,
		`and presses a button: 200 \[The answer is: Pay\]`, `a double click: 200 \[The answer is: Pay\]`, `another button, in an old tab: 409 \[The answer is: Pay\]`,
		`a look the next day: 200 \[The answer is: Pay\]`, `a link that somebody made up: 404 \[No question belongs to this link.\]`,
		`completed: "paid for the stand at the fair: cost centre 12"`}},
	{"webhook-mounted", "spec:H1, inv:U4, tr:R1, tr:R5", []string{`the bank is asked about order-42`, `  evt_1: 401 stale`, `  evt_2: 200 passed_over`,
		`  evt_3: 202 parked`, `  evt_4: 200 (applied|early)`, `  evt_4: 200 duplicate`, `completed: "paid for order 42"`}},
	{"transaction", "spec:H8, inv:A8, tr:F2", []string{`order 1: there is not enough; neither the order nor its job is stored`,
		`order 2, attempt 1: taken, then something fails`, `order 2, attempt 2: taken`, `order 2 is completed: "packed"; 70 pieces are left`, `jobs: 1`}},
	{"outbox", "spec:H9, tr:N5", []string{`relay: killed between the queue and the outbox`, `relay: <nil>`, `job orders-1: \{"order":1\}`,
		`job orders-2: \{"order":2\}`, `job orders-3: \{"order":3\}`, `left in the outbox: 1, because of its kind`}},
	{"fan-out", "spec:H8, spec:D3, tr:F17, tr:S8, tr:F16, rules:C10", []string{`attempt 1 sends out 3 parts`, `attempt 1 has 18 rows; without \[broken.csv\]`,
		`the import waits for job 1 \(ready\)`, `approved`, `stage 1 publishes {"rows": 18}`, `completed: {"rows":18}`}},
	{"nats", "spec:H1, spec:H2, spec:H5", []string{`asking the bank to charge order-42`, `order-42 is completed after attempt 1: {"order":"order-42","approved":true}`}},
	{"kafka", "spec:H1, spec:H2, spec:H5", []string{`asking the bank to charge order-42`, `order-42 is completed after attempt 1: {"approved":true}`}},
	{"rabbitmq", "spec:H1, spec:H2, spec:H5", []string{`asking the bank to charge order-42`, `order-42 is completed after attempt 1: {"approved":true}`}},
	{"regions", "spec:K2, spec:K4", []string{`the service is full`, `  east  40`, `  north 30`, `  west  30`,
		`asked so far, after ten answers for the west`, `  east  40`, `  north 30`, `  west  40`}},
	{"limits", "spec:H8, spec:K2, spec:K4", []string{`limit of each customer: 2; set by an operator: \[\]`, `in flight: map\[ada:2 ben:2\]`,
		`ada's third export waits at the gate "group_limit": the group is at its limit`,
		`limit of each customer: 1; set by an operator: \[group_limit\]`, `all exports are done: 6`}},
	{"workflow-order", "spec:D11, inv:E5", []string{`order-42 is running: 0 of 3 members are final; started twice: true`, `ship waits`, `charge: order 42`, `pack: order 42`,
		`ship: order 42`, `mail: order 42 is completed, 3 of 3`, `order-42 is completed: 3 of 3 members are final`}},
	{"search", "spec:O17", []string{`args.customer:42: 2 jobs`, `args.customer:43: 1 jobs`, `kind:charge args.customer:42 meta.shop:north: 2 jobs`, `sojourn: args.amount: no queue indexes all paths of this filter; add it with "sojourn queue set QUEUE --index args.amount" \(invalid\)`}},
	{"triage", "spec:R15, spec:R16", []string{`90 jobs: order #: gateway <address> is down`, `completed: 90 of 90 jobs redriven`}},
	{"saga", "spec:D11, inv:E5", []string{`book flight`, `book hotel`, `book car: none is left`, `undo flight`, `undo hotel`,
		`journey is failed: completed 2, failed 1, cancelled 1`}},
	{"errored-retry-policy", "spec:H8, tr:W4, tr:C4, tr:D1, tr:D2", []string{`attempt 1: ask the bank`, `policy: error 1 is timeout`,
		`attempt 2: ask the bank`, `policy: error 2 is timeout`, `attempt 3: ask the bank`, `policy: error 3 is timeout`,
		`failed: attempt 3, failures 3, reason "timeout"`,
		`  1\. attempt 1, await     → awaiting *`, `  2\. attempt 1, timed_out → errored timeout`, `  3\. attempt 1, decided   → scheduled timeout`,
		`  4\. attempt 2, await     → awaiting *`, `  5\. attempt 2, timed_out → errored timeout`, `  6\. attempt 2, decided   → scheduled timeout`,
		`  7\. attempt 3, await     → awaiting *`, `  8\. attempt 3, timed_out → errored timeout`, `  9\. attempt 3, decided   → failed timeout`}},
}

// TestExamples runs each example and compares its output line by line (spec:H8).
func TestExamples(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", append(append([]string{"build", "-o", dir + string(filepath.Separator)}, buildFlags...), "./...")...).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, s := range stories {
		t.Run(s.folder, func(t *testing.T) {
			t.Parallel()
			t.Log(s.covers)
			var env []string
			if broker := brokers[s.folder]; broker != nil {
				env = append(env, broker(t))
			}
			compare(t, output(t, filepath.Join(dir, s.folder), env...), s.lines)
		})
	}
}

// patience is how long an example may take on a busy machine; alone each ends within 2 s.
const patience = time.Minute

// brokers start what an example needs beside itself, and say how it finds that.
var brokers = map[string]func(t *testing.T) string{
	"kafka":    func(t *testing.T) string { return "KAFKA_BROKER=" + brokertest.StartKafka(t).Address },
	"nats":     func(t *testing.T) string { return "NATS_URL=" + brokertest.StartNATS(t).URL },
	"rabbitmq": func(t *testing.T) string { return "RABBITMQ_URL=" + brokertest.StartRabbitMQ(t).URL },
}

func output(t *testing.T, program string, env ...string) []string {
	t.Helper()
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env...)
	out, err := proctest.CombinedOutput(cmd)
	if err != nil {
		t.Fatalf("%v (%v)\n%s", err, ctx.Err(), out)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	return slices.DeleteFunc(lines, failedAttempt.MatchString)
}

// failedAttempt matches the line that a worker logs about a failed attempt.
var failedAttempt = regexp.MustCompile(`^[0-9/]+ [0-9:]+ (WARN|ERROR) sojourn: (an attempt|a job) failed `)

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("line %d is missing: %s", i+1, want[i])
		case i >= len(want):
			t.Errorf("line %d is too much: %s", i+1, got[i])
		case !regexp.MustCompile(`^` + want[i] + `$`).MatchString(got[i]):
			t.Errorf("line %d is %q, want %q", i+1, got[i], want[i])
		}
	}
}

// TestEachExampleHasAStory: a folder without one would never run.
func TestEachExampleHasAStory(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "readme" {
			folders = append(folders, e.Name())
		}
	}
	var told []string
	for _, s := range stories {
		told = append(told, s.folder)
	}
	slices.Sort(told)
	if !slices.Equal(folders, told) {
		t.Errorf("the folders are %v, the stories %v", folders, told)
	}
}
