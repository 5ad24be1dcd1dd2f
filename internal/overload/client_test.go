package overload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// caller sends requests without the Go client, which would wait and retry. It counts the responses.
type caller struct {
	http  *http.Client
	url   string
	token string
	tally *tally
}

func newCaller(url, token string, t *tally) *caller {
	return &caller{url: url, token: token, tally: t,
		http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 5000, MaxIdleConns: 5000}}}
}

// answer is the status, the time that a refusal asks for, and the body.
type answer struct {
	status int
	retry  time.Duration
	body   []byte
}

func (c *caller) send(ctx context.Context, method, path string, body []byte) (a answer, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.token)
	got, err := c.http.Do(r)
	if err != nil {
		return a, err
	}
	defer got.Body.Close()
	if a.body, err = io.ReadAll(got.Body); err != nil {
		return a, err
	}
	a.status = got.StatusCode
	if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable {
		seconds, bad := strconv.Atoi(got.Header.Get("Retry-After"))
		var p struct {
			Code      string
			Retryable bool
			Outcome   string
		}
		if bad != nil || seconds < 1 || json.Unmarshal(a.body, &p) != nil || !p.Retryable || a.status == 503 && p.Outcome != "not_stored" {
			c.tally.fault("a refusal without what it needs: %d %v %s", a.status, got.Header, a.body)
		}
		a.retry = time.Duration(seconds) * time.Second
	}
	return a, nil
}

// tally records the answers and latencies of each sort of caller.
type tally struct {
	mu     sync.Mutex // guards the fields below
	count  map[string]map[string]int
	took   map[string][]time.Duration
	faults []string
}

func newTally() *tally {
	return &tally{count: map[string]map[string]int{}, took: map[string][]time.Duration{}}
}

func (t *tally) add(sort string, a answer, err error, took time.Duration) {
	what := strconv.Itoa(a.status)
	if err != nil {
		what = "broken"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[sort] == nil {
		t.count[sort] = map[string]int{}
	}
	t.count[sort][what]++
	if err == nil && a.status < 300 {
		t.took[sort] = append(t.took[sort], took)
	}
}

func (t *tally) fault(format string, a ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.faults) < 20 {
		t.faults = append(t.faults, fmt.Sprintf(format, a...))
	}
}

// quantile is of the time until a sort of request had succeeded.
func (t *tally) quantile(sort string, q float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Sorted(slices.Values(t.took[sort]))
	if len(all) == 0 {
		return 0
	}
	return all[int(q*float64(len(all)-1))]
}

func (t *tally) line(sort string) string {
	p50, p99, most := t.quantile(sort, 0.5), t.quantile(sort, 0.99), t.quantile(sort, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%-8s %v, p50 %v, p99 %v, at most %v", sort, t.count[sort], p50.Round(time.Millisecond), p99.Round(time.Millisecond), most.Round(time.Millisecond))
}
