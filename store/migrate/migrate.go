package migrate

import "context"

// Migrator migrates the tables of a store, from any version. It is opened by sqlite.OpenMigrator,
// postgres.OpenMigrator or store.OpenMigrator. All methods are safe for concurrent use, in several
// processes too.
type Migrator interface {
	// Schema returns the version of the tables.
	Schema(ctx context.Context) (Schema, error)
	// Plan lists the steps from the current version to another one, 0 (no tables) to Schema.Newest,
	// with their statements and the data that a step down would delete. It changes nothing.
	Plan(ctx context.Context, to int) ([]Migration, error)
	// Migrate runs these steps, each in its own transaction, and returns the steps that it ran.
	// After an error the steps before it stay applied; another process may have run some of them.
	// It asks for no confirmation: show the Plan first.
	Migrate(ctx context.Context, to int) ([]Migration, error)
	// Drift lists how tables, columns, constraints and indexes differ from the migrations.
	Drift(ctx context.Context) ([]string, error)
	// Close closes the database.
	Close() error
}

// Schema is the version of a store's tables, and whether this program can use it. A program opens
// tables of its own version, and newer ones whose Needs is not above its version; otherwise Open
// returns an error with CodeSchema.
type Schema struct {
	Found  int `json:"found"`  // 0: there are none
	Newest int `json:"newest"` // that this program knows
	Needs  int `json:"needs"`  // the least Newest of a program that may work with them
}

// Migration is one step of the schema, up or down.
type Migration struct {
	Version int      `json:"version"` // that the step leads to, or down from
	Name    string   `json:"name"`
	Down    bool     `json:"down,omitempty"`
	Needs   int      `json:"needs"` // as in Schema, after the step
	SQL     []string `json:"sql"`   // its statements, all in one transaction
	Loses   []Loss   `json:"loses,omitempty"`
}

// Loss is a table with its rows, or a column of a table, that a step down deletes.
type Loss struct {
	Table  string `json:"table"`
	Column string `json:"column,omitempty"`
	Rows   int64  `json:"rows"` // that the table has now
}
