package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// Result is the result of one case of a scenario. The first group of fields identifies the case; a
// field that does not apply is 0 or empty.
type Result struct {
	Scenario  string `json:"scenario"`
	Producers int    `json:"producers,omitzero"` // goroutines that enqueue
	Batch     int    `json:"batch,omitzero"`     // jobs of an enqueue
	Worker    string `json:"worker,omitempty"`   // "worker": package worker; "bare": loops of Claim and Finish
	Backlog   int    `json:"backlog,omitzero"`   // ready jobs
	Awaiting  int    `json:"awaiting,omitzero"`  // jobs that await, of which some are answered, by so many producers
	PerClaim  int    `json:"per_claim,omitzero"` // jobs of a claim
	Queue     string `json:"queue,omitempty"`    // in "flow" its gates; in "respond" the isolated operation

	Jobs       int     `json:"jobs"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"jobs_per_s"`
	AckP50MS   float64 `json:"ack_p50_ms"` // of the call: an enqueue; in "respond" the answer, in "claim" the claim
	AckP99MS   float64 `json:"ack_p99_ms"`
	StartP50MS float64 `json:"start_p50_ms,omitzero"` // from the call of the enqueue, in "respond" of the answer, to the start of the handler
	StartP99MS float64 `json:"start_p99_ms,omitzero"`
	Ratio      float64 `json:"ratio,omitzero"` // in "flow" and for isolated operations: jobs/s or claim p99, relative to the first such case of the run
	Runs       int     `json:"runs,omitzero"`  // of those with a ratio: in turn with the other cases; the figures are medians, p50 and p99 of claims those of all
	Cut        bool    `json:"cut,omitzero"`   // the time was up before all jobs were done

	HeapBytes     uint64  `json:"heap_bytes"`               // that live afterwards, with the store open
	RSSBytes      uint64  `json:"rss_bytes,omitzero"`       // of this process, where the system reports it
	BytesPerJob   float64 `json:"bytes_per_job,omitzero"`   // by which the store has grown, warm-up included
	CommitsPerJob float64 `json:"commits_per_job,omitzero"` // transactions, warm-up and claims of nothing included
	before        sojourn.Status
}

// Case describes the measured case in words.
func (r Result) Case() string {
	var words []string
	if r.Queue != "" {
		words = append(words, r.Queue)
	}
	add := func(n int, thing string) {
		switch {
		case n == 1:
			words = append(words, "1 "+thing)
		case n > 1:
			words = append(words, fmt.Sprintf("%d %ss", n, thing))
		}
	}
	if r.Awaiting > 0 {
		words = append(words, fmt.Sprint(r.Awaiting, " awaiting"), fmt.Sprint(r.Producers, " answers at a time"))
	} else {
		add(r.Producers, "producer")
	}
	if r.Batch > 0 {
		words = append(words, fmt.Sprint(r.Batch, " a call"))
	}
	if r.Backlog > 0 {
		words = append(words, fmt.Sprint("backlog ", r.Backlog), fmt.Sprint(r.PerClaim, " a claim"))
	}
	if r.Worker == workerName(true) && r.Backlog == 0 {
		words = append(words, r.Worker)
	}
	return strings.Join(words, ", ")
}

func (r *Result) starts(s Sample) {
	r.StartP50MS, r.StartP99MS = Milliseconds(s.Quantile(0.5)), Milliseconds(s.Quantile(0.99))
}

// settle records the status of the store before the measurement. If the store has no status, its
// figures are omitted.
func (r *Result) settle(ctx context.Context, c *sojourn.Client) {
	if s, err := c.Store().Status(ctx); err == nil {
		r.before = s
	}
}

func (r *Result) fill(ctx context.Context, c *sojourn.Client, m Measured) {
	r.Jobs, r.Seconds, r.PerSecond, r.Cut = m.Jobs, m.Took.Seconds(), m.PerSecond(), m.Cut
	r.AckP50MS, r.AckP99MS = Milliseconds(m.Ack.Quantile(0.5)), Milliseconds(m.Ack.Quantile(0.99))
	if s, err := c.Store().Status(ctx); err == nil && m.All > 0 {
		r.BytesPerJob = max(float64(s.Bytes+s.WALBytes-r.before.Bytes-r.before.WALBytes)/float64(m.All), 0)
		r.CommitsPerJob = float64(s.Commits-r.before.Commits) / float64(m.All)
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.HeapBytes, r.RSSBytes = memory.HeapAlloc, residentBytes()
}

// residentBytes returns the resident set size on Linux, elsewhere 0.
func residentBytes() uint64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
