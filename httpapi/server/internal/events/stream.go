package events

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/event"
)

const (
	// StreamType is the content type of a stream: server-sent events, as the HTML standard defines
	// them.
	StreamType = "text/event-stream"
	// StreamTime is how long a stream lasts at most. A browser then opens it again by itself, with
	// the id of the last event that it has received. This acknowledges the events up to it.
	StreamTime = time.Minute
	// heartbeat is the longest time without a line, so that proxies keep the connection.
	heartbeat = 10 * time.Second
	// patience is how long a client may take to receive a page.
	patience = 30 * time.Second
)

// StreamIn is the request of a stream.
type StreamIn struct {
	Follower string        `path:"follower"`
	Wait     time.Duration `query:"wait" doc:"how long the stream lasts, at most and by default 1m; 0s ends it after the events that are stored"`
}

// Stream acknowledges the events up to last, and writes those behind it until ctx ends or the time
// is over. An error before the first byte is returned. After that the stream ends, and the client
// gets the error when it opens the stream again.
func Stream(ctx context.Context, w http.ResponseWriter, in *StreamIn, last string, read func(context.Context, event.Read) (event.Page, error)) error {
	if in.Wait < 0 {
		return sojourn.Invalid("wait", "%v is negative", in.Wait)
	}
	began := time.Now()
	r := event.Read{Follower: in.Follower, Ack: event.Position(last), Limit: sojourn.MaxFind}
	page, err := read(ctx, r)
	if err != nil {
		return err
	}
	head, out := w.Header(), http.NewResponseController(w)
	head.Set("Content-Type", StreamType)
	head.Set("Cache-Control", "no-store")
	head.Set("X-Accel-Buffering", "no") // proxies pass each event on at once
	for text := "retry: 1000\n\n"; ; text = "" {
		_ = out.SetWriteDeadline(time.Now().Add(patience))
		if _, err := w.Write(append([]byte(text), textOf(page)...)); err != nil || out.Flush() != nil {
			return nil // the client has gone
		}
		lasted := time.Since(began)
		left := min(in.Wait, StreamTime) - lasted
		if left <= 0 && (in.Wait > 0 || len(page.Events) == 0 || lasted > StreamTime) || ctx.Err() != nil {
			return nil
		}
		r.Ack, r.After, r.Wait = "", page.Next, max(min(left, heartbeat), 0)
		if page, err = read(ctx, r); err != nil {
			return nil
		}
	}
}

// textOf writes a page in the format of a stream. JSON has no line breaks. The id at its end is no
// event for the client, but the client sends it back: without it, a follower whose events are rare
// would never acknowledge what lies between them.
func textOf(page event.Page) []byte {
	var out bytes.Buffer
	for _, e := range page.Events {
		data, _ := json.Marshal(e) // text, numbers and times: it cannot fail
		fmt.Fprintf(&out, "id: %s\nevent: %s\ndata: %s\n\n", e.Position, e.Type, data)
	}
	fmt.Fprintf(&out, "id: %s\n\n", page.Next)
	return out.Bytes()
}
