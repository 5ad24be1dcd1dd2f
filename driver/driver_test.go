package driver

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// taker is a Step that records the saved values.
type taker struct {
	saved []string
	err   error
	log   *slog.Logger
}

func (s *taker) SaveCheckpoint(_ context.Context, b []byte) error {
	return s.save("checkpoint", string(b))
}

func (s *taker) SetProgress(_ context.Context, text string) error { return s.save("progress", text) }

func (s *taker) SetKey(_ context.Context, key string) error { return s.save("key", key) }

func (s *taker) save(what, value string) error {
	s.saved = append(s.saved, what+" "+value)
	return s.err
}

func (s *taker) Logger() *slog.Logger { return s.log }

func TestJobSaves(t *testing.T) {
	ctx, step, j := context.Background(), &taker{log: slog.New(slog.DiscardHandler)}, sojourn.NewJob("k", nil)
	Attach(j, step)
	for _, err := range []error{j.SaveCheckpoint(ctx, []byte("half")), j.SaveCheckpoint(ctx, nil), j.SetProgress(ctx, "50 %"), j.SetProgress(ctx, ""), j.SetKey(ctx, "ref-9")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"checkpoint half", "checkpoint ", "progress 50 %", "progress ", "key ref-9"}
	if !reflect.DeepEqual(step.saved, want) {
		t.Errorf("saved %+v, want %+v", step.saved, want)
	}
	if j.Key != "ref-9" || j.Checkpoint == nil || len(j.Checkpoint) != 0 {
		t.Errorf("the job does not show what was saved: key %q, checkpoint %v", j.Key, j.Checkpoint)
	}
	n := len(step.saved)
	for _, key := range []string{"bad\n", ""} {
		if err := j.SetKey(ctx, key); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if len(step.saved) != n {
		t.Error("a bad key reached the store")
	}
	step.err = sojourn.ErrLeaseLost
	if err := j.SaveCheckpoint(ctx, []byte("more")); !errors.Is(err, sojourn.ErrLeaseLost) || len(j.Checkpoint) != 0 {
		t.Errorf("%v, checkpoint %q: what was refused must not show", err, j.Checkpoint)
	}
	if err := j.SetKey(ctx, "ref-10"); !errors.Is(err, sojourn.ErrLeaseLost) || j.Key != "ref-9" {
		t.Errorf("%v, key %q", err, j.Key)
	}
	if j.Log() != step.log {
		t.Error("Log is not the step's logger")
	}
}

// refused checks that an error has CodeInvalid and the field.
func refused(t *testing.T, err error, field string) {
	t.Helper()
	if e, ours := errors.AsType[*sojourn.Error](err); !ours || e.Code != sojourn.CodeInvalid || e.Field != field {
		t.Errorf("%v, want the field %s", err, field)
	}
}

// reached is a Step that knows where the receiver is.
type reached struct{ taker }

func (*reached) RespondURL() string { return "https://shop.example/sojourn" }

func TestRespondURL(t *testing.T) {
	j := sojourn.NewJob("k", nil)
	_, err := j.RespondURL(0)
	refused(t, err, "respond_url")
	Attach(j, &taker{})
	_, err = j.RespondURL(0)
	refused(t, err, "respond_url")
	Attach(j, &reached{})
	secret := []byte("a secret of this store")
	j.Token, j.UpdatedAt = access.NewCapability(secret, 42, 1, 2, 3), time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for _, within := range []time.Duration{-1, sojourn.MaxHorizon + 1} {
		_, err = j.RespondURL(within)
		refused(t, err, "within")
	}
	want := access.Capability{Job: 42, Generation: 1, Attempt: 2, Wait: 3}
	for _, within := range []time.Duration{0, time.Hour} {
		url, err := j.RespondURL(within)
		token, ok := strings.CutPrefix(url, "https://shop.example/sojourn/respond/")
		if within > 0 {
			want.Until = j.UpdatedAt.Add(within).Local()
		}
		if c, parse := access.ParseCapability(secret, token); err != nil || !ok || parse != nil || c != want {
			t.Errorf("within %v: %s, %v, %v, %v", within, url, c, err, parse)
		}
	}
}
