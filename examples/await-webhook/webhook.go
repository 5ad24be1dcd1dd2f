package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/sojourn-queue/sojourn"
)

// webhook acknowledges an answer when it is durable, never before: until then the gateway repeats
// it. Check the sender's signature in yours.
func (s *shop) webhook(w http.ResponseWriter, r *http.Request) {
	var a answer
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, sojourn.DefaultMaxBytes))
	if err != nil || json.Unmarshal(body, &a) != nil || a.Key == "" {
		http.Error(w, "not understood", http.StatusBadRequest)
		return
	}
	got, err := s.client.Respond(r.Context(), &sojourn.Response{Kind: charge.Name, Key: a.Key, Body: body,
		Source: "gateway", MessageID: r.Header.Get("Webhook-Id")})
	if err != nil {
		http.Error(w, "come again", http.StatusServiceUnavailable)
		return
	}
	fmt.Printf("webhook %s: %s\n", r.Header.Get("Webhook-Id"), got.Outcome) // early, applied, duplicate, late: each is fine
}
