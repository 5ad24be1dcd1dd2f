package kit

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Completed is the outcome of a step that ends its job with a result.
func Completed(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted, Result: []byte("done"), ResultType: "text/plain"}
}

// Follow is Completed with the next jobs.
func Follow(c driver.Claimed, jobs ...sojourn.Job) sojourn.Outcome {
	o := Completed(c)
	o.Next = jobs
	return o
}

// Advance is the outcome of a step whose job goes on with its next stage; no queue = in the same.
func Advance(c driver.Claimed, queue string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAdvance, Queue: queue}
}

// AwaitJobs is the outcome of a step that stores children and waits for them.
func AwaitJobs(c driver.Claimed, within time.Duration, children ...sojourn.Job) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwaitJobs, Wait: sojourn.Wait{Within: within}, Next: children}
}

// Failure is the outcome of a step that ends with an error.
func Failure(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeError, Reason: "gateway", Text: "the gateway said no"}
}

// Abort is the outcome of a step that fails its job for good.
func Abort(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAbort, Reason: "declined", Text: "the card was declined"}
}

// Snooze is the outcome of a step whose job continues after d.
func Snooze(c driver.Claimed, d time.Duration) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeSnooze, Delay: d}
}

// Released is the outcome of a step that a worker gives back when it stops.
func Released(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeReleased}
}

// Decided is the outcome of a step that decides about the retry.
func Decided(c driver.Claimed, v sojourn.Verdict) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeDecided, Verdict: v}
}

// Await is the outcome of a step that waits for a response: under the keys, or without keys under
// that of the job.
func Await(c driver.Claimed, within time.Duration, keys ...string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Within: within, Keys: keys}}
}

// AwaitAll is Await for a response under each of the keys.
func AwaitAll(c driver.Claimed, within time.Duration, keys ...string) sojourn.Outcome {
	o := Await(c, within, keys...)
	o.Wait.Mode = sojourn.WaitAll
	return o
}

// Polled is Await with poll steps.
func Polled(c driver.Claimed, within time.Duration, poll sojourn.Backoff, keys ...string) sojourn.Outcome {
	o := Await(c, within, keys...)
	o.Wait.Poll = poll
	return o
}

// Every polls after d, without any randomness.
func Every(d time.Duration) sojourn.Backoff {
	return sojourn.Backoff{First: d, Factor: 2, Limit: 4 * d, Jitter: -1}
}

// NoAnswer is the outcome of a poll step that has found no response.
func NoAnswer(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeNoAnswer}
}

// Answers is the outcome of a poll step that has found a response.
func Answers(c driver.Claimed, text string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAnswer, Result: []byte(text), ResultType: "text/plain"}
}
