package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// TestStatusOfCodes: the page of an error has the status that the HTTP API has for its code. Only
// what the server did not expect is 500.
func TestStatusOfCodes(t *testing.T) {
	source, err := os.ReadFile("../../errors.go")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		sojourn.CodeInvalid: 422, sojourn.CodeTooLarge: 413, sojourn.CodeInvalidJSON: 422, sojourn.CodeConflict: 409, sojourn.CodeNotFound: 404, sojourn.CodeDependency: 422,
		sojourn.CodeCycle: 422, sojourn.CodeLeaseLost: 409, sojourn.CodeClosed: 503, sojourn.CodeIDExpired: 409, sojourn.CodeOversize: 422, sojourn.CodeQueueFull: 429, sojourn.CodeQueueLimit: 422,
		sojourn.CodeLowSpace: 507, sojourn.CodeUnknown: 503, sojourn.CodeUnavailable: 503, sojourn.CodeDrained: 409, sojourn.CodeSchema: 503,
	}
	b := mount(t, Options{})
	shows := func(err error) (int, string) {
		w := httptest.NewRecorder()
		b.site.fail(b.site.request(w, httptest.NewRequest(http.MethodGet, "/jobs", nil), b.site.anyone), err)
		return w.Code, w.Body.String()
	}
	codes := regexp.MustCompile(`(?m)^\tCode\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	for _, m := range codes {
		status, page := shows(fmt.Errorf("a call: %w", &sojourn.Error{Code: m[1], Index: -1, Message: "the reason"}))
		if status != want[m[1]] || !strings.Contains(page, m[1]) {
			t.Errorf("%s: %d, want %d\n%s", m[1], status, want[m[1]], page)
		}
		delete(want, m[1])
	}
	if len(want) > 0 || len(codes) < 18 {
		t.Errorf("of %d codes, these are not in errors.go: %v", len(codes), want)
	}
	if status, page := shows(fmt.Errorf("read: %w", context.DeadlineExceeded)); status != http.StatusServiceUnavailable || !strings.Contains(page, "too long") {
		t.Errorf("a store that is slow: %d\n%s", status, page)
	}
	if status, page := shows(fmt.Errorf("dial tcp 10.0.0.1: secret")); status != http.StatusInternalServerError || strings.Contains(page, "secret") {
		t.Errorf("an unexpected error: %d\n%s", status, page)
	}
}
