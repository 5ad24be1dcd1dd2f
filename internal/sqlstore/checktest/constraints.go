package checktest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Constraint is a check constraint of a table, as the database knows it.
type Constraint struct {
	Table, Name string
	Columns     []string // that its condition names
}

// breaches break one constraint each, by a statement or several ones. PostgreSQL has fewer of the
// constraints than SQLite. Constraints of lists of columns (names that end in _flags, _counters or
// _times) are broken by columnBreaches. blob(n) are n bytes.
var breaches = map[string][]string{
	"meta_name":      {`update sj_meta set name = '' where name = 'instance'`},
	"block_ids":      {`update sj_block set size = 0`, `update sj_block set first = 0 where first = (select max(first) from sj_block)`},
	"queue_name":     {`update sj_queue set name = '' where name = 'limited'`},
	"queue_reshape":  {`update sj_queue set reshape = -2`},
	"bucket_full_at": {`insert into sj_bucket (queue, lane, full_at_ns) values ('limited', '', 0)`},
	"job_id":         {`update sj_job set id = 0 where id = (select max(id) from sj_job)`},

	"live_state": {`update sj_live set state = 0 where state = 5`, `update sj_live set state = 7 where state = 5`},
	"live_lease": {`update sj_live set lease_until_us = 0 where state = 4`, `update sj_live set lease_until_us = 1 where state = 5`,
		`update sj_live set state = 4, purpose = 1 where state = 5`},
	"live_weight":  {`update sj_live set weight = 1000001 where held = 0`, `update sj_live set weight = -1 where held = 0`},
	"live_budgets": {`update sj_live set failures = attempt + 1`, `update sj_live set failures = -1`, `update sj_live set crashes = -1`},

	"key_job":      {`update sj_key set job = 0`},
	"key_past_job": {`insert into sj_key_past (kind, key, job) values ('k', 'k', 0)`},

	"edge_ends":         {edges + `(1, 1, 0, 0, 0)`, edges + `(0, 1, 0, 0, 0)`, edges + `(1, 0, 0, 0, 0)`},
	"edge_on_failure":   {edges + `(1, 2, 5, 0, 0)`, edges + `(1, 2, -1, 0, 0)`},
	"child_ids":         {children + `(0, 1, 0, 'a', 2)`, children + `(1, 1, 0, 'a', 0)`, children + `(1, 1, 0, 'a', 1)`},
	"child_name":        {children + `(1, 1, 0, '', 2)`},
	"child_counters":    {children + `(1, -1, 0, 'a', 2)`, children + `(1, 1, -1, 'a', 2)`},
	"ending_dependents": {`insert into sj_ending (job, state, done, dependents) values (1, 7, 0, 3)`},
	"ending_state":      {`insert into sj_ending (job, state, done) values (1, 6, 0)`, `insert into sj_ending (job, state, done) values (1, 10, 0)`},

	"final_state":   {`update sj_final set state = 6`, `update sj_final set state = 10`},
	"final_budgets": {`update sj_final set failures = attempt + 1`, `update sj_final set failures = -1`, `update sj_final set crashes = -1`},
	"final_weight":  {`update sj_final set weight = 1000001`, `update sj_final set weight = -1`},

	"history_state": {`update sj_history set state = 0`, `update sj_history set state = 10`},
	"log_seq":       {`update sj_log set seq = 0`},

	"archive_name":   {`insert into sj_archive (owner, name, id, queue, kind, completed, failed, cancelled, target, secret, wait_us, created_us) values ('', '', 1, '', '', 1, 1, 1, '', '', 1, 1)`},
	"archive_states": {`insert into sj_archive (owner, name, id, queue, kind, completed, failed, cancelled, target, secret, wait_us, created_us) values ('', 'a', 1, '', '', 0, 0, 0, '', '', 1, 1)`},

	"checkpoint_size":  {`insert into sj_checkpoint (job, seq, bytes) values (1, 0, 1)`, `insert into sj_checkpoint (job, seq, bytes) values (1, 1, 0)`},
	"error_detail_seq": {`insert into sj_error_detail (job, seq, detail) values (1, 0, blob(2))`},

	"ask_seq": {`insert into sj_ask (job, seq, generation, stage, attempt, wait, asked_us, question) values (1, 0, 1, 0, 1, 0, 1, blob(2))`},

	"response_outcome": {`update sj_response set outcome = 0 where in_hand = 0`, `update sj_response set outcome = 3 where in_hand = 0`, `update sj_response set outcome = 10 where in_hand = 0`},
	"response_in_hand": {`update sj_response set outcome = 4 where in_hand = 1`, `update sj_response set job = 0 where in_hand = 1`},
	"message_seq":      {`update sj_message set seq = -1`},

	"owner_id":              {`insert into sj_owner (id, lock_key, server_us) values ('short', 1, 1)`}, // of PostgreSQL
	"worker_name":           {`update sj_worker set worker = ''`},
	"worker_claim_no":       {`update sj_worker set claim_no = -1`},
	"schedule_name":         {`update sj_schedule set name = ''`},
	"schedule_due":          {`update sj_schedule set due_us = next_us - 1`},
	"schedule_flags":        {`update sj_schedule set paused = -1`, `update sj_schedule set paused = 2`},
	"tick_job":              {`update sj_tick set job = 0`},
	"workflow_name":         {`update sj_workflow set name = '' where state = 7`},
	"workflow_state":        {`update sj_workflow set state = 0`, `update sj_workflow set state = 3`, `update sj_workflow set state = 11`},
	"workflow_owed":         {`update sj_workflow set owed = -1`, `update sj_workflow set owed = 4`},
	"workflow_doing":        {`update sj_workflow set doing = -1`, `update sj_workflow set doing = 4`},
	"member_state":          {`update sj_member set state = -1`, `update sj_member set state = 6`, `update sj_member set state = 10`},
	"workflow_end_failures": {`insert into sj_workflow_end (workflow, completed, failed, cancelled, failures) values (1, 0, 0, 0, -1)`},
	"failure_id":            {`insert into sj_failure (id, attempts, failed, first_us, last_us, sample_job, muted_us, muted_until_us, due_us, other, queue, kind, reason, pattern, sample, muted_by, mute_reason) values (0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 'q', 'k', '', '', blob(1), '', '')`},
	"operation_id":          {operations + `('', '', blob(32), '{}', 1, 0, 0, 0, 0, 0, '', '', '', 0, 1, 1, 1, 0)`},
	"operation_state":       {operations + `('o', '', blob(32), '{}', 0, 0, 0, 0, 0, 0, '', '', '', 0, 1, 1, 1, 0)`, operations + `('o', '', blob(32), '{}', 5, 0, 0, 0, 0, 0, '', '', '', 0, 1, 1, 1, 0)`},
	"access_id":             {access + `('', 't', blob(32), '[]', 1, 1, 0, 0)`},
	"access_hash":           {access + `('t', 't', blob(31), '[]', 1, 1, 0, 0)`},
	"access_expires":        {access + `('t', 't', blob(32), '[]', 1, 0, 0, 0)`},
	"access_times":          {access + `('t', 't', blob(32), '[]', -1, 1, 0, 0)`, access + `('t', 't', blob(32), '[]', 1, 1, -1, 0)`, access + `('t', 't', blob(32), '[]', 1, 1, 0, -1)`},
	"index_pass":            {`insert into sj_index (queue, paths, pass, finished_us, job, mark_us) values ('x', '', 1, 0, 0, 0)`},
	"follower_name":         {`insert into sj_follower (owner, name, filter, xid, id, gap, created_us, seen_us) values ('', '', '{}', 0, 0, 0, 1, 1)`},
	"audit_seq":             {`insert into sj_audit (seq, at_us, who, action, target, detail, code, request, source) values (0, 1, '', '', '', '', '', '', '')`},
}

const children = `insert into sj_child (parent, generation, stage, name, child) values `

const operations = `insert into sj_operation (id, owner, digest, spec, state, total, changed, unchanged, refused, cursor, canaries, problem, runner, lease_us, due_us, created_us, updated_us, ended_us) values `

const edges = `insert into sj_edge (child, parent, on_failure, on_stage, open) values `

const access = `insert into sj_access (id, name, hash, grants, created_us, expires_us, revoked_us, used_us) values `

// breachRows are the rows in which a column can be changed without breaking another constraint.
// Default: all rows.
var breachRows = map[string]string{
	"sj_live.resumed": "resumed = 1", "sj_live.in_hand": "resumed = 0", "sj_live.held": "state = 5", "sj_live.weight": "held = 0",
	"sj_schedule.next_us": "due_us >= 0",
	"sj_response.in_hand": "in_hand = 1", "sj_response.job": "outcome = 1 and in_hand = 0", "sj_response.expires_us": "outcome = 1",
}

// columnBreaches sets each column of a list to a value that is not allowed.
func columnBreaches(c Constraint) (out []string) {
	values := []string{"-1"}
	switch {
	case strings.HasSuffix(c.Name, "_flags"):
		values = append(values, "2")
	case !strings.HasSuffix(c.Name, "_counters") && !strings.HasSuffix(c.Name, "_times"):
		return nil
	}
	for _, column := range c.Columns {
		for _, value := range values {
			q := "update " + c.Table + " set " + column + " = " + value
			if rows := breachRows[c.Table+"."+column]; rows != "" {
				q += " where " + rows
			}
			out = append(out, q)
		}
	}
	return out
}

var blobToken = regexp.MustCompile(`blob\(([0-9]+)\)`)

// Constraints breaks each check constraint of a store, which refuses it (spec:S12). c is a client
// of a new store. list reads all constraints from the schema, so one that no statement breaks fails
// the test. try runs a statement on the store's database in a transaction that it rolls back. It
// returns the number of rows that were changed. blob is an expression for n bytes.
func Constraints(t *testing.T, c *sojourn.Client, blob func(n string) string, list func(t *testing.T) []Constraint, try func(t *testing.T, q string) (rows int64, err error)) {
	build(t, c)
	defer c.Close()
	all := list(t)
	if len(all) < 30 {
		t.Errorf("the schema has %d constraints: some are missing", len(all))
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			statements, ok := breaches[c.Name]
			if !ok {
				statements = columnBreaches(c)
			}
			if len(statements) == 0 {
				t.Fatalf("no statement breaks the constraint %s of %s", c.Name, c.Table)
			}
			for _, q := range statements {
				q = blobToken.ReplaceAllStringFunc(q, func(token string) string { return blob(blobToken.FindStringSubmatch(token)[1]) })
				rows, err := try(t, q)
				if err == nil {
					t.Errorf("%q is not refused; it changed %d rows", q, rows)
				} else if !regexp.MustCompile(`\b` + c.Name + `\b`).MatchString(err.Error()) {
					t.Errorf("%q is refused by something else than %s: %v", q, c.Name, err)
				}
			}
		})
	}
	if t.Failed() {
		return
	}
	if found, err := c.Store().(driver.Checker).Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("after the refused statements: %v %v", found, err)
	}
}
