package rule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

func someMessage() *source.Message {
	return &source.Message{ID: "replies/0@17", Topic: "replies", Key: "order-7", Headers: map[string]string{"event-id": "evt_1"}, ContentType: "application/json",
		Time: now, Body: []byte(`{"type":"charge.ok","n":9007199254740993,"big":18446744073709551615,"f":1.5,"nil":null,"list":[1,"<a>"],"meta":{"order":"order-42"}}`)}
}

// one makes rules of which one is under test.
func one(name, text string) rule.Match {
	m := rule.Match{Kind: `"charge"`, Key: `body.meta.order`}
	switch name {
	case "when":
		m.When = text
	case "kind":
		m.Kind = text
	case "key":
		m.Key = text
	case "id":
		m.ID = text
	case "ok":
		m.OK, m.Reason, m.Error = text, `body.type`, `"from " + topic`
	case "progress":
		m.Progress, m.OK = text, "false"
	case "body":
		m.Body = text
	}
	return m
}

// TestMatcherAnswers checks the input of each rule and its result (spec:H2).
func TestMatcherAnswers(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"when", `body.type == "charge.no"`, "passed over"},
		{"when", `has(body.kind)`, "passed over"},
		{"when", `topic == "replies" && key == "order-7" && content_type == "application/json" && raw.size() > 10 && time.getHours() == 12 && id == "replies/0@17"`,
			`charge order-42 replies/0@17`},
		{"kind", `body.type.startsWith("charge.") ? "charge" : "refund"`, `charge order-42 replies/0@17`},
		{"key", `body.n`, `charge 9007199254740993 replies/0@17`},
		{"key", `body.big`, `charge 18446744073709551615 replies/0@17`},
		{"key", `key`, `charge order-7 replies/0@17`},
		{"key", `body.meta.order.lowerAscii()`, "!1:27: undeclared reference to 'lowerAscii'"},
		{"id", `headers["event-id"]`, `charge order-42 evt_1`},
		{"id", `headers["Event-ID"]`, `charge order-42 evt_1`},
		{"id", `"EVENT-ID" in headers ? headers["eVENT-iD"] : "none"`, `charge order-42 evt_1`},
		{"id", `headers.all(name, name == "event-id") && size(headers) == 1 && headers == {"event-id": "evt_1"} ? "all" : "none"`, `charge order-42 all`},
		{"id", `has(headers.Event) ? "some" : string("X" in headers)`, `charge order-42 false`},
		{"ok", `body.type == "charge.ok"`, `charge order-42 replies/0@17`},
		{"ok", `body.type != "charge.ok"`, `charge order-42 replies/0@17 failed charge.ok: from replies`},
		{"progress", `has(body.type)`, `charge order-42 replies/0@17 progress`},
		{"progress", `has(body.percent)`, `charge order-42 replies/0@17 failed : `},
		{"body", `body.meta`, `charge order-42 replies/0@17 {"order":"order-42"}`},
		{"body", `body`, `charge order-42 replies/0@17 {"big":18446744073709551615,"f":1.5,"list":[1,"<a>"],"meta":{"order":"order-42"},"n":9007199254740993,"nil":null,"type":"charge.ok"}`},
		{"body", `body.type`, `charge order-42 replies/0@17 charge.ok`},
		{"body", `b"\x00\x01"`, "charge order-42 replies/0@17 \x00\x01"},
		{"body", `[1, body.f, {"a": null, "b": true}]`, `charge order-42 replies/0@17 [1,1.5,{"a":null,"b":true}]`},
	} {
		match, err := rule.Matcher(one(c.name, c.text))
		if err != nil {
			want, fails := strings.CutPrefix(c.want, "!")
			if !fails || !strings.Contains(err.Error(), want) {
				t.Errorf("%s = %s: %v", c.name, c.text, err)
			}
			continue
		}
		m := someMessage()
		r := match.Response(t.Context(), "bank", m)
		got := "passed over"
		if r != nil {
			got = fmt.Sprint(r.Kind, " ", r.Key, " ", r.MessageID)
			if r.Failed {
				got += fmt.Sprintf(" failed %s: %s", r.Reason, r.Error)
			}
			if r.Progress {
				got += " progress"
			}
			if string(r.Body) != string(m.Body) {
				got += " " + string(r.Body)
			}
			if r.Park {
				got = r.Reason + ": " + r.Error
			}
		}
		if got != c.want {
			t.Errorf("%s = %s\n gives %s\n want  %s", c.name, c.text, got, c.want)
		}
	}
}

// TestMatcherParks: a message that a rule cannot deal with is parked under the right reason, with
// the rule and the place in it.
func TestMatcherParks(t *testing.T) {
	for _, c := range []struct{ name, text, body, want string }{
		{"key", `body.order`, ``, "rule: key: 1:5: no such key: order"},
		{"key", `body.meta.order`, `[1]`, "rule: key: 1:10: unsupported index type 'string' in list"},
		{"key", `"a" + \n body.order`, ``, "rule: key: 2:6: no such key: order"},
		{"key", `body.f`, ``, "rule: key: 1:1: gives double; it must give string or int"},
		{"key", `""`, ``, "rule: key: 1:1: gives an empty string"},
		{"key", `body.meta.order`, `{`, "undecodable: the body is not JSON: unexpected EOF"},
		{"key", `body.meta.order`, ``, ""},
		{"key", `body.meta.order`, `{} {}`, "undecodable: the body is not JSON: more follows after the value, at byte 4"},
		{"key", `body.meta.order`, "\x00", "undecodable: the body is not JSON: invalid character '\\x00' looking for beginning of value"},
		{"when", `body.type`, ``, "rule: when: 1:1: gives string; it must give bool"},
		{"body", `{1: 2}`, ``, "rule: body: 1:1: the body has a map with a key of type int; JSON needs strings"},
		{"body", `time`, ``, "rule: body: 1:1: gives google.protobuf.Timestamp, which has no form in JSON; convert it to a string"},
		{"id", `headers["none"]`, ``, "rule: id: 1:8: no such key: none"},
		{"id", `headers["None"]`, ``, "rule: id: 1:8: no such key: None"},
		{"ok", `int(body.type) == 1`, ``, "rule: ok: 1:4: type conversion error from 'string' to 'int'"},
	} {
		match, err := rule.Matcher(one(c.name, strings.ReplaceAll(c.text, `\n`, "\n")))
		if err != nil {
			t.Errorf("%s = %s: %v", c.name, c.text, err)
			continue
		}
		m := someMessage()
		if c.body != "" {
			m.Body = []byte(c.body)
		}
		r := match.Response(t.Context(), "bank", m)
		got := ""
		if r.Park {
			got = r.Reason + ": " + r.Error
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s = %s about %.20s\n gives %s\n want  %s", c.name, c.text, m.Body, got, c.want)
		}
		if r.Park && (r.MessageID != "parked:replies/0@17" || string(r.Body) != string(m.Body) || r.Kind != "" || r.Validate(sojourn.DefaultMaxBytes) != nil) {
			t.Errorf("parked as %+v", r)
		}
	}
}

// TestMatcherRefuses: rules are checked when they are compiled; the error names the rule, the line
// and the column.
func TestMatcherRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"key", ``, "key: the rule is empty"},
		{"kind", ``, "kind: the rule is empty"},
		{"key", `bodi.order`, "key: 1:1: undeclared reference to 'bodi'"},
		{"key", "\n  topic + 1", "key: 2:9: found no matching overload for '_+_'"},
		{"key", `[topic]`, "key: 1:1: the rule gives list(string); it must give string or int or uint or dyn"},
		{"when", `topic`, "when: 1:1: the rule gives string; it must give bool or dyn"},
		{"progress", `1`, "progress: 1:1: the rule gives int; it must give bool or dyn"},
		{"ok", `1`, "ok: 1:1: the rule gives int; it must give bool or dyn"},
		{"when", `topic.matches("(")`, "when: error parsing regexp"},
		{"body", strings.Repeat(" ", sojourn.MaxRule) + "1", "body: 8193 bytes exceed"},
	} {
		_, err := rule.Matcher(one(c.name, c.text))
		at, ok := errors.AsType[*rule.RuleError](err)
		if !ok || at.Rule != c.name || !strings.HasPrefix(err.Error(), "sojourn: "+c.want) || sojourn.ErrorCode(err) == "" {
			t.Errorf("%s = %.40s: %v", c.name, c.text, err)
		}
	}
}

// TestMatcherIsBounded: an expensive rule parks its message, and the next ones are free of it.
func TestMatcherIsBounded(t *testing.T) {
	match, err := rule.Matcher(one("key", `[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, [1,2,3,4,5,6,7,8,9,10].map(c, [1,2,3,4,5,6,7,8,9,10].map(d,
		[1,2,3,4,5,6,7,8,9,10].map(e, a + b + c + d + e))))).size() > 0 ? topic : topic`))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := match.Response(t.Context(), "bank", someMessage())
	if !r.Park || r.Reason != source.ReasonRule || !strings.Contains(r.Error, "cost limit exceeded") {
		t.Errorf("%+v", r)
	}
	t.Logf("stopped after %v", time.Since(began))
}

// FuzzMatcher: no body and no rule makes a matcher panic, and each message gets one end that a
// store takes.
func FuzzMatcher(f *testing.F) {
	f.Add(`body.meta.order`, []byte(`{"meta":{"order":"a"}}`), "k")
	f.Add(`string(body.a[0]) + key`, []byte(`{"a":[1e999,{}]}`), "\xff")
	f.Add(`headers["h"]`, []byte("\x00"), "")
	f.Add(`string(raw)`, []byte("\xff\xfe"), "x")
	f.Add(`body`, []byte(`"text"`), "x")
	f.Add(`dyn([body, {body: body}])[1]`, []byte(`7`), "x")
	f.Fuzz(func(t *testing.T, text string, body []byte, key string) {
		for _, name := range []string{"key", "body", "id"} {
			match, err := rule.Matcher(one(name, text), rule.Cost(10_000))
			if err != nil {
				if sojourn.ErrorCode(err) == "" {
					t.Fatalf("%s = %q: an error without a code: %v", name, text, err)
				}
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			r := match.Response(ctx, "bank", &source.Message{ID: "1", Key: key, Headers: map[string]string{"h": key}, Body: body})
			cancel()
			switch {
			case r == nil:
				t.Fatalf("%s = %q passes a message over", name, text)
			case r.Park && (r.Reason == "" || r.Error == "" || r.Reason == source.ReasonPanic || r.Validate(sojourn.MaxMaxBytes) != nil):
				t.Fatalf("%s = %q about %q: %+v", name, text, body, r)
			case !r.Park && (r.Kind == "" || r.Key == "" || r.MessageID == ""):
				t.Fatalf("%s = %q about %q: %+v", name, text, body, r)
			}
		}
	})
}

func BenchmarkMatcher(b *testing.B) {
	match, err := rule.Matcher(rule.Match{When: `body.type in ["charge.ok", "charge.failed"]`, Kind: `"charge"`, Key: `body.meta.order`, ID: `headers["event-id"]`,
		OK: `body.type == "charge.ok"`})
	if err != nil {
		b.Fatal(err)
	}
	m := someMessage()
	for b.Loop() {
		match(b.Context(), m)
	}
}
