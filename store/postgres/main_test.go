package postgres

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration/migrationtest"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/ticktest"
)

// The test binary is also the processes that TestNodes kills.
func TestMain(m *testing.M) {
	if command := os.Getenv("SOJOURN_TEST_MIGRATE"); command != "" {
		if err := migrationtest.Child(migrations(os.Getenv("SOJOURN_TEST_POSTGRES"), os.Getenv("SOJOURN_TEST_SCHEMA")), command); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if schema := os.Getenv("SOJOURN_TEST_TICKS"); schema != "" {
		err := ticktest.Node(os.Stdin, os.Stdout, func(now func() time.Time) (*sojourn.Client, error) {
			return Open(os.Getenv("SOJOURN_TEST_POSTGRES"), Schema(schema), Clock(now))
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if schema := os.Getenv("SOJOURN_TEST_NODE"); schema != "" {
		if err := node(os.Getenv("SOJOURN_TEST_POSTGRES"), schema); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if schema := os.Getenv("SOJOURN_TEST_HOLDER"); schema != "" {
		if err := runHolder(os.Getenv("SOJOURN_TEST_POSTGRES"), schema); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	closeKept()
	stopServer()
	os.Exit(code)
}
