package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/server"
)

// TestRedactedPages: what the server hides is on no page and in no download, except for those who
// may see it. Looking for it finds nothing.
func TestRedactedPages(t *testing.T) {
	b := mountOn(t, Options{SignIn: true}, server.Options{Redact: []string{"args.card.number", "response.token"}})
	const secret = "4111222233334444"
	id := b.enqueue(sojourn.NewJob("charge", []byte(`{"card":{"number":"`+secret+`","name":"Shown Name"}}`), sojourn.Queue("pay"), sojourn.Key("order-1")))
	for _, key := range []string{"order-1", "order-2"} {
		if _, err := b.client.Respond(t.Context(), &sojourn.Response{Kind: "charge", Key: key, Source: "bank", Body: []byte(`{"token":"` + secret + `","name":"Shown Name"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	job := fmt.Sprintf("jobs/%d", id)
	pages := append([]string{job, job + "/args", "jobs?queue=pay", "response?seq=1", "response?seq=2", "waiting?outcome=early", "queue?name=pay", "find?q=" + secret, "jobs?key=" + secret, "jobs?tag=" + secret, "jobs?group=" + secret}, paths...)
	bearers := map[string]string{} // all before the first use: the server reads the tokens once a second
	for name, g := range map[string]access.Grant{"reader": grant("", access.VerbRead, access.VerbReadArgs, access.VerbOperate), "sees": grant("", access.VerbRead, access.VerbReadArgs, access.VerbReadRedacted), "admin": grant("", access.VerbAdmin)} {
		_, bearers[name] = b.token(name, g)
	}
	for name, bearer := range bearers {
		p := b.another()
		p.signIn(bearer)
		shown, secrets := 0, 0
		for _, path := range pages {
			got := p.get(path)
			shown += strings.Count(got.body, "Shown Name")
			body := strings.ReplaceAll(strings.ReplaceAll(got.body, "="+secret, ""), `value="`+secret, "") // of the search itself
			secrets += strings.Count(body, secret)
			if name == "reader" && (strings.Contains(body, secret) || strings.Contains(path, "="+secret) && strings.Contains(body, "order-1")) {
				t.Errorf("%s shows it:\n%s", path, body)
			}
		}
		if shown < 4 || (secrets > 0) != (name != "reader") {
			t.Errorf("%s: %d values, %d secrets", name, shown, secrets)
		}
		if name == "reader" {
			p.see(job, "[redacted]", "Shown Name")
		}
	}
}
