// Package migrate describes the versions of a store's tables and the steps between them. Programs
// get a [Migrator] from sqlite.OpenMigrator, postgres.OpenMigrator or store.OpenMigrator.
package migrate
