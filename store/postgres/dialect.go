package postgres

import (
	"embed"
	"errors"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/claim"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/counters"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/events"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobcount"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobevent"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/respond"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/statistics"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/upkeep"
	"github.com/sojourn-queue/sojourn/store/postgres/internal/texts"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// newDialect returns the SQL dialect of PostgreSQL.
func newDialect(o options) (sqldb.Dialect, error) {
	folder, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return sqldb.Dialect{}, err
	}
	migrations, err := sqldb.LoadMigrations(folder)
	migrations = append(migrations, o.more...)
	for i := range migrations {
		// An index is in the schema of its table, and its name must not contain a schema, so sj_
		// cannot be used in it.
		migrations[i].Up = strings.ReplaceAll(migrations[i].Up, "create index ix_", "create index ix_"+o.prefix)
		migrations[i].Down = strings.ReplaceAll(migrations[i].Down, "drop index ix_", "drop index "+strings.TrimSuffix(o.tables(), o.prefix)+"ix_"+o.prefix)
	}
	return sqldb.Dialect{
		Name:  "postgres",
		Lock:  "for update skip locked",
		Wait:  "for update of %s",
		Hit:   "returning %s",
		Ints:  "select unnest(%s::bigint[])",
		Texts: "select unnest(%s::text[])",
		// A join with the list may be planned the other way round while the table is empty: all
		// rows, each compared with the list.
		Among: "= any(array(%s))",
		// Two columns that are compared by = may be merged, so the planner also thinks of reading
		// all of an index: of a table that was empty when it was vacuumed, and that plan stays
		// until the next vacuum. A lookup by a list of one is nothing else.
		Probe: "= any(array[%s])",
		Rows: func(params []string) string {
			for i, p := range params {
				params[i] = strings.Replace(p, " ", "::", 1) + "[]"
			}
			return unfolding + strings.Join(params, ", ") + unfoldingEnd
		},
		Arrays:     true,
		Busy:       busy,
		Over:       ownTexts,
		Shape:      qShape,
		Migrations: migrations,
		Concurrent: true,
		Writer:     "select cast(cast(pg_current_xact_id() as text) as bigint) % 4294967296",
		FindTable:  "select case when to_regclass($1) is null then 0 else 1 end",
		Migrating:  "lock table sj_migration in exclusive mode",
	}, err
}

// qShape omits settings that belong to operators, such as the parameters of autovacuum. A
// definition that names a table or sequence names it without its schema. sj_owner must be unlogged,
// other tables must not; a rehearsed table is neither.
const qShape = `with home as (select relnamespace as id, regexp_replace($1, '^.*[.]', '') as prefix from pg_class where oid = to_regclass($1 || 'migration')),
	own as (select c.oid, c.relname, c.relkind, c.relpersistence from pg_class c, home where c.relnamespace = home.id and c.relkind in ('r', 'p', 'S', 'v', 'm')
		and starts_with(c.relname, home.prefix)),
	found as (
	select case relkind when 'S' then 'sequence ' when 'v' then 'view ' when 'm' then 'view ' else 'table ' end || relname as name,
		case when relname = (select prefix from home) || 'owner' then case relpersistence when 'p' then 'logged' else '' end
			when relpersistence = 'u' then 'unlogged' else '' end as text, relname as home from own
	union all select 'column ' || own.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
			|| coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''), own.relname
		from own join pg_attribute a on a.attrelid = own.oid and a.attnum > 0 and not a.attisdropped left join pg_attrdef d on d.adrelid = own.oid and d.adnum = a.attnum
		where own.relkind in ('r', 'p')
	union all select 'constraint ' || own.relname || '.' || k.conname, pg_get_constraintdef(k.oid) || case when k.convalidated then '' else ' not valid' end, own.relname
		from own join pg_constraint k on k.conrelid = own.oid where k.contype <> 'n'
	union all select 'index ' || i.relname, case when x.indisunique then 'unique ' else '' end || case when x.indisvalid then '' else 'invalid ' end
			|| regexp_replace(pg_get_indexdef(x.indexrelid), '^.* USING ', ''), own.relname
		from own join pg_index x on x.indrelid = own.oid join pg_class i on i.oid = x.indexrelid
	union all select 'trigger ' || own.relname || '.' || g.tgname, 'trigger', own.relname from own join pg_trigger g on g.tgrelid = own.oid where not g.tgisinternal)
	select name, regexp_replace(text, '[a-z0-9_]+[.](' || (select prefix from home) || ')', '\1', 'g'), home from found`

// The codes of the server after which the same transaction may succeed.
const (
	serialization = "40001"
	deadlock      = "40P01"
	// A wait for all writers was given up, so that others do not queue behind it for long.
	lockTimeout = "55P03"
	// A row that another transaction has inserted after this one had looked. Seen again, it is not
	// inserted.
	unique = "23505"
	// Two processes make the first table at once.
	duplicateTable  = "42P07"
	duplicateObject = "42710"
)

// busy reports errors after which the whole transaction is worth another try.
func busy(err error) bool {
	if errors.Is(err, sqldb.ErrRaced) {
		return true
	}
	switch code(err) {
	case serialization, deadlock, lockTimeout, unique, duplicateTable, duplicateObject:
		return true
	}
	return false
}

// code is the server's code of an error; "" for others.
func code(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}

// ownTexts are the statements that have a text of their own here.
var ownTexts = map[string]string{
	txn.TextValidate: `select 1 where cast(extract(epoch from clock_timestamp()) * 1000000 as bigint) between $1 and $2
		and not exists (select 1 from sj_live where wake_at_us <= $3 and wake_at_us < 9223372036854775807)
		and not exists (select 1 from sj_live where queue in (texts($4)) and kind in (texts($5)) and state = 3)
		and ($6 = '' or exists (select 1 from sj_worker where worker = $6 and claim_no = $7 and drained = 0)
			and not exists (select 1 from sj_queue where name = '*' and paused + gated > 0))`,
	claim.TextBulkStart:   texts.StartAlike,
	txn.TextValidateClock: `select 1 where cast(extract(epoch from clock_timestamp()) * 1000000 as bigint) between $1 and $2`,
	// A transaction that has written a table holds this lock on it until it ends.
	upkeep.TextWriters: `select virtualtransaction from pg_locks where locktype = 'relation' and relation in (to_regclass('sj_live'), to_regclass('sj_final')) and mode = 'RowExclusiveLock'
		and database = (select oid from pg_database where datname = current_database()) and granted and pid is distinct from pg_backend_pid()`,
	// A counter's row stays locked until the commit: it would put the responses of all
	// nodes into one line, and it is taken after the rows of jobs, which ends in deadlocks.
	txn.TextNextResponses: `select nextval('sj_response_seq'), 1::bigint from generate_series(1, $1::bigint)`,
	// The new ones get their numbers in the same message.
	respond.TextMessages: `select v.scope, v.id, coalesce(m.seq, nextval('sj_response_seq')), coalesce(r.job, 0),
		case when m.seq is null then 0 else 1 end::bigint, m.digest from (select distinct * from unnest($1::text[], $2::text[]) u(scope, id)) v
		left join sj_message m on m.scope = v.scope and m.message_id = v.id left join sj_response r on r.seq = m.seq`,
	// The shared text reads 1,000 candidates and takes a few. Locks on all of them would hide them
	// from the other nodes; so this one skips heavy jobs without a bound.
	claim.TextPick: `select id, r1, r2, weight from sj_live where queue = $1 and kind = $2 and state = 3 and $3::bigint > 0 and (weight <= $4::bigint or run_at_us <= $6::bigint)
		order by r1, r2, id limit $5 /*lock*/`,
	// The table has no index: each row is written and deleted once.
	counters.TextTake: `delete from sj_count_change where ctid = any(array(select ctid from sj_count_change limit $1 for update skip locked))
		returning queue, kind, ` + strings.Join(jobcount.Names, ", "),
	statistics.TextTake: `delete from sj_stat_change where ctid = any(array(select ctid from sj_stat_change limit $1 for update skip locked))
		returning day, events`,
	jobevent.TextUnfollowed: `select 1 where not exists (select 1 from sj_follower)`,
	jobevent.TextAdd:        texts.AddTransition,
	// Below xmin no transaction can commit any more.
	events.TextPage: `select ` + events.Columns + ` from sj_event where (xid, id) > ($1, $2) and xid < ` + texts.OldestOpen + ` order by xid, id limit $3`,
	events.TextExpired: `delete from sj_event where (xid, id) in (select xid, id from (select xid, id, at_us from sj_event order by xid, id limit $2) e where at_us < $1 and xid < ` +
		texts.OldestOpen + `) returning xid, id`,
	events.TextStart: `select ` + texts.OldestOpen + `, 0::bigint`,
	events.TextAhead: `select 1 where $1::bigint >= cast(cast(pg_snapshot_xmax(pg_current_snapshot()) as text) as bigint) limit $2`,
	query.TextOldest: `select u.queue, min(s.since) from unnest($1::text[], $2::text[]) u(queue, kind) cross join lateral (
		with recursive ranks (r1) as (select min(l.r1) from sj_live l where l.queue = u.queue and l.kind = u.kind and l.state = 3
		union all select (select min(l.r1) from sj_live l where l.queue = u.queue and l.kind = u.kind and l.state = 3 and l.r1 > ranks.r1) from ranks where ranks.r1 is not null)
		select (select l.updated_us from sj_live l where l.queue = u.queue and l.kind = u.kind and l.state = 3 and l.r1 = ranks.r1 order by l.r2, l.id limit 1) as since
		from ranks where ranks.r1 is not null limit 100) s where s.since is not null group by u.queue`,
	// A row's xmin is its mark: the transaction that has written it.
	txn.TextDeleteCached: `delete from sj_live l using (rows($1 bigint, $2 bigint, $3 bigint, $4 bigint)) v(id, state, epoch, mark)
		where l.id = any(array[v.id]) and l.state = v.state and l.epoch = v.epoch and cast(cast(l.xmin as text) as bigint) = v.mark returning l.id`,
	// A join with ids is planned as a scan of all jobs while the server's statistics show few.
	gate.TextHeads: `select l.id, l.r1, l.r2, l.weight, t.lane from unnest($3::text[]) t(lane) cross join lateral
		(select h.id, h.r1, h.r2, h.weight from sj_live h where h.queue = $1 and h.kind = $2 and h.state = 3 and h.lane <> '' and h.lane <> '-'
		and h.lane = t.lane and h.r1 > -2147483649 order by h.r1, h.r2, h.id limit $4) l`,
}
