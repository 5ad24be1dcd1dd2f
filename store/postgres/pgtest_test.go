package postgres

import "github.com/sojourn-queue/sojourn/internal/pgtest"

// The server of the tests.
var (
	testURL     = pgtest.URL
	newSchema   = pgtest.NewSchema
	emptySchema = pgtest.EmptySchema
	execute     = pgtest.SQL
	with        = pgtest.With
	stopServer  = pgtest.Stop
)
