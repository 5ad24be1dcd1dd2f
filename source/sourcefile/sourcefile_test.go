package sourcefile_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/sourcefile"
	"github.com/sojourn-queue/sojourn/source/webhook"
)

const good = `# answers of the bank
[[source]]
name  = "bank"
batch = 50
ttl   = "48h"
when  = 'body.type in ["charge.ok", "charge.failed"]'
kind  = '"charge_card"'
key   = """
body
  .order"""
id    = 'headers["event-id"]'
ok    = 'body.type == "charge.ok"'
reason = 'body.code'
error = 'body.text'
progress = 'body.type == "charge.pending"'
body  = 'body'

[source.nats]
url = "nats://localhost:1"
stream = "REPLIES"
subjects = ["replies.bank"]
durable = "shop"
ack_wait = "10s"

[[source]]
name = "other"
kind = '"other"'
key = 'topic'
nats = { url_env = "SOME_URL", stream = "OTHER", existing = true }

[[source]]
name = "records"
kind = '"other"'
key = 'key'

[source.kafka]
brokers = ["127.0.0.1:1"]
topics = ["a", "b"]
group = "shop"
instance = "shop-1"
tls = true
sasl = "scram-sha-512"
user = "ada"
password_env = "SOME_PASSWORD"

[[source]]
name = "queue"
kind = '"other"'
key = 'key'
rabbitmq = { url = "amqp://127.0.0.1:1/", queue = "replies", prefetch = 10 }

[[source]]
name = "hook"
ttl = "1h"
kind = '"charge_card"'
key = 'body.order'
[source.webhook]
path = "/hooks/bank"
signature = "standard"
secrets = ["SOME_SECRET", "SOME_OLD_SECRET"]
public_keys = ["whpk_3wjctSTLJgR7u2or7sx0sW60ad+zZLHYHGUdMQc1QC8="]
kinds = ["charge_card"]
tolerance = "1m"
known_only = true

[[source]]
name = "plain"
webhook = { signature = "bearer", secret_files = ["none"], kinds = ["*"] }

[[source]]
name = "ruled"
kind = '"charge_card"'
key = 'body.order'
webhook = { signature = "bearer", secrets = ["SOME_SECRET"], kinds = ["*"] }
`

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sources.toml")
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := sourcefile.Load(file)
	if err != nil || len(list) != 7 {
		t.Fatalf("%d sources, %v", len(list), err)
	}
	s := list[0]
	if s.Options.Name != "bank" || s.Options.Batch != 50 || s.Options.TTL != 48*time.Hour || s.Broker != "nats" || s.From != "REPLIES" || s.Rules.OK == "" {
		t.Errorf("%+v", s)
	}
	r := s.Options.Match.Response(t.Context(), "bank", &source.Message{ID: "1", Headers: map[string]string{"event-id": "e"},
		Body: []byte(`{"type":"charge.failed","order":"o-1","code":"declined","text":"no"}`)})
	if r.Kind != "charge_card" || r.Key != "o-1" || r.MessageID != "e" || !r.Failed || r.Reason != "declined" || r.Error != "no" {
		t.Errorf("%+v", r)
	}
	if _, err := list[1].Open(); err == nil || !strings.Contains(err.Error(), "SOME_URL is empty") {
		t.Errorf("a variable that is not set: %v", err)
	}
	if s := list[2]; s.Broker != "kafka" || s.From != "a,b" {
		t.Errorf("%+v", s)
	}
	if _, err := list[2].Open(); err == nil || !strings.Contains(err.Error(), "SOME_PASSWORD is empty") {
		t.Errorf("a variable that is not set: %v", err)
	}
	if s := list[3]; s.Broker != "rabbitmq" || s.From != "replies" {
		t.Errorf("%+v", s)
	}
	t.Setenv("SOME_URL", "nats://127.0.0.1:1")
	t.Setenv("SOME_PASSWORD", "secret")
	for _, s := range list[:4] {
		b, err := s.Open()
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
}

// A webhook has no broker but a door, whose secrets are read when it is opened: from variables, of
// which the second may be empty, and from files.
func TestWebhook(t *testing.T) {
	list, err := sourcefile.Parse("f", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	s, plain := list[4], list[5]
	if s.Open != nil || s.Broker != "webhook" || s.From != "/hooks/bank" || s.Options.Name != "hook" || s.Options.TTL != time.Hour || s.Signature != "webhook-signature" {
		t.Errorf("%+v", s)
	}
	if _, err := s.Endpoint(); err == nil || !strings.Contains(err.Error(), `"SOME_SECRET" is empty`) {
		t.Errorf("a variable that is not set: %v", err)
	}
	t.Setenv("SOME_SECRET", "whsec_dGhlIHNlY3JldCBvZiB0aGlzIHRlc3QgaGFzIDMyIGI=")
	e, err := s.Endpoint()
	if err != nil || e.Name != "hook" || e.Path != "/hooks/bank" || e.TTL != time.Hour || !e.KnownOnly || e.Verify.(*webhook.Signed).Tolerance != time.Minute || e.Match == nil {
		t.Errorf("%+v, %v", e, err)
	}
	t.Setenv("SOME_SECRET", "short")
	if _, err := s.Endpoint(); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("a bad secret: %v", err)
	}
	if plain.From != "/respond/{kind}/{key}" || plain.Options.Match != nil {
		t.Errorf("%+v", plain)
	}
	if ruled := list[6]; ruled.From != "/webhook/ruled" || ruled.Options.Match == nil {
		t.Errorf("%+v", ruled)
	}
	if _, err := plain.Endpoint(); err == nil || !strings.Contains(err.Error(), "secret_files: open none") {
		t.Errorf("a file that is not there: %v", err)
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a secret of 16 bytes or more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err = sourcefile.Parse("f", []byte(strings.Replace(good, `"none"`, "'"+file+"'", 1)))
	if err != nil {
		t.Fatal(err)
	}
	e, err = list[5].Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Verify.Verify(http.Header{"Authorization": {"Bearer a secret of 16 bytes or more"}}, nil, time.Now()); err != nil {
		t.Errorf("the secret of the file: %v", err)
	}
}

// TestRefused: each mistake is found when the file is loaded, with its line, and its column where
// the text says so.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{good, "", "f.toml has no [[source]]"},
		{`batch = 50`, `batch = "50"`, "f.toml:4:9: "},
		{`batch = 50`, `batch = 5000`, "f.toml:4: batch: 5000 is out of range"},
		{`ttl   = "48h"`, `ttl = "soon"`, `f.toml:5:7: `},
		{`ttl   = "48h"`, `tll = "48h"`, "f.toml:5:1: there is no field source.tll"},
		{`name  = "bank"`, ``, "f.toml:2: name: has 0 bytes"},
		{`name = "other"`, `name = "bank"`, `f.toml:26: name: "bank" is the name of another source`},
		{`kind  = '"charge_card"'`, `kind = 'charge_card'`, "f.toml:7: kind: 1:1: undeclared reference to 'charge_card'"},
		{`  .order"""`, "  .order + 1 + topic\"\"\"", "f.toml:8: key: 2:14: found no matching overload"},
		{`key = 'topic'`, ``, "f.toml:25: key: the rule is empty"},
		{"stream = \"REPLIES\"\n", "", "f.toml:18: nats.stream: \"\" is not the name"},
		{`nats = { url_env = "SOME_URL", stream = "OTHER", existing = true }`, ``, `f.toml:25: source: "other" has 0 brokers`},
		{`[source.nats]`, `[source.nats`, "f.toml:18:13: "},
		{`ack_wait = "10s"`, `ack_wait = 10`, "f.toml: \"10\" is not a duration"},
		{`ack_wait = "10s"`, `ack_wait = "10ms"`, "f.toml:18: nats.ack_wait: 10ms is out of range"},
		{`stream = "REPLIES"`, `stream = "a.b"`, "f.toml:18: nats.stream: \"a.b\" is not the name of a stream"},
		{`topics = ["a", "b"]`, ``, "f.toml:36: kafka.topics: are missing"},
		{`sasl = "scram-sha-512"`, `sasl = "md5"`, `f.toml:36: kafka.sasl: "md5" is unknown`},
		{`user = "ada"`, ``, "f.toml:36: kafka.sasl: needs user and password_env"},
		{"[source.kafka]", "nats.stream = \"x\"\n[source.kafka]", `f.toml:31: source: "records" has 2 brokers`},
		{`prefetch = 10`, `prefetch = -1`, "f.toml:50: rabbitmq.prefetch: -1 is out of range"},
		{`amqp://`, `http://`, "f.toml:50: rabbitmq.url: AMQP scheme must be"},
		{`signature = "standard"`, `signature = "md5"`, `f.toml:57: webhook.signature: "md5" is not a signature`},
		{`path = "/hooks/bank"`, `path = "/respond/x"`, `f.toml:57: webhook.path: "/respond/x" is no path such as /hooks/bank`},
		{`path = "/hooks/bank"`, `path = "hooks"`, `f.toml:57: webhook.path: "hooks" is no path`},
		{`kinds = ["charge_card"]`, ``, `f.toml:57: webhook.kinds: endpoint hook has no kinds`},
		{`tolerance = "1m"`, `tolerance = "-1m"`, `f.toml:57: webhook.tolerance: -1m0s is out of range`},
		{"ttl = \"1h\"\nkind = '\"charge_card\"'\nkey = 'body.order'\n", "", `f.toml:52: key: is missing: signatures do not cover the path`},
		{`ttl = "1h"`, `ttl = "1ms"`, `f.toml:54: ttl: 1ms is out of range`},
		{`ttl = "1h"`, `batch = 10`, `f.toml:54: batch: a webhook receives one message at a time; remove batch`},
		{`secret_files = ["none"]`, `public_keys = ["whpk_"]`, `f.toml:68: webhook.public_keys: only the signature standard uses public keys; remove public_keys`},
		{`secret_files = ["none"], `, ``, `f.toml:68: webhook.secrets: name environment variables`},
		{`webhook = { signature = "bearer", secret_files = ["none"], kinds = ["*"] }`,
			"kind = '\"k\"'\nkey = 'topic'\nwebhook = { path = \"/hooks/bank\", signature = \"bearer\", secret_files = [\"none\"], kinds = [\"*\"] }",
			`f.toml:70: webhook.path: /hooks/bank is the path of "hook" already`},
		{`nats = { url_env = "SOME_URL"`, "webhook.signature = \"github\"\nnats = { url_env = \"SOME_URL\"", `f.toml:25: source: "other" has 2 brokers`},
		{`url_env = "SOME_URL"`, `url_env = "SOME_URL", url = "nats://x"`, "f.toml:29: nats.url: give url or url_env, not both"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		_, err := sourcefile.Parse("f.toml", []byte(text))
		if err == nil || sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), "file: "+c.want) {
			t.Errorf("%s\n gives %v\n want  %s", c.new, err, c.want)
		}
	}
	if _, err := sourcefile.Load(filepath.Join(t.TempDir(), "none.toml")); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Error(err)
	}
}

// FuzzParse: no text makes the reader panic, and each refusal has a code.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("[[source]]\nnats.stream = 'x'\nkind = '''\n1'''")
	f.Add("source = [{name = 'a', kind = '\"k\"', key = 'topic', nats = {stream = 's'}}]")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := sourcefile.Parse("f", []byte(text)); err != nil && sojourn.ErrorCode(err) == "" {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
