package postgres

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stopServer()
	os.Exit(code)
}
