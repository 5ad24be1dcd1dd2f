// Package migration brings the schema of a store up and down, one step a transaction, and compares
// the tables that exist with those that the steps make. It works on any [sqldb.DB].
package migration
