package postgres

import (
	"fmt"
	"os"
	"testing"
)

// The test binary is also the processes that TestNodes kills.
func TestMain(m *testing.M) {
	if schema := os.Getenv("SOJOURN_TEST_NODE"); schema != "" {
		if err := node(os.Getenv("SOJOURN_TEST_POSTGRES"), schema); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	stopServer()
	os.Exit(code)
}
