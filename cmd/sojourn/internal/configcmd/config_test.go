package configcmd

import "testing"

// A misspelt name is answered with the one that was meant (spec:X13).
func TestNearest(t *testing.T) {
	names := []string{"serve.addr", "serve.grace", "store"}
	for name, want := range map[string]string{"stor": "store", "serve.adr": "serve.addr", "serve.grase": "serve.grace", "colour": "", "": ""} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}
