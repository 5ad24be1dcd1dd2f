// Package webhooksign signs requests by Standard Webhooks (https://www.standardwebhooks.com).
package webhooksign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Key reads a secret: "whsec_" with the base64 of 24 to 64 bytes. ok is false if it is none.
func Key(secret string) (key []byte, ok bool) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	return key, err == nil && len(key) >= 24 && len(key) <= 64
}

// Sign adds the headers with the time now and a signature by each key; none without keys. The id is
// the same over all attempts to deliver a message.
func Sign(h http.Header, keys [][]byte, id string, body []byte, now time.Time) {
	if len(keys) == 0 {
		return
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	var signatures []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", stamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
}
