package txn

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

const OutcomeApplied int64 = 1

const OutcomeConflict int64 = 9

const OutcomeDiscarded int64 = 8

const OutcomeEarly int64 = 2

const OutcomeLate int64 = 4

const OutcomeParked int64 = 7

const OutcomeStale int64 = 5

const OutcomeUnmatched int64 = 6

// codes of sj_response.outcome.
var OutcomeCodes = []sojourn.ResponseOutcome{"", sojourn.Applied, sojourn.Early, sojourn.Duplicate, sojourn.Late, sojourn.Stale, sojourn.Unmatched,
	sojourn.Parked, sojourn.Discarded, sojourn.Conflicting}

const QTakenLate = `update sj_response set in_hand = 0, outcome = 4 where job in (ints($1)) and job > 0 and in_hand = 1`

const QAttachedLate = `update sj_response set outcome = 4 where job in (ints($1)) and job > 0 and outcome = 2`

const QDispose = `update sj_response set in_hand = 0 where job in (ints($1)) and job > 0 and in_hand = 1`

const ResponseColumns = `seq, source, message_id, kind, key, job, generation, outcome, failed, progress, reason, error, content_type, received_us,
	expires_us, duplicates, body, replay, by_whom`

func ScanResponse(r sqldb.Row) sojourn.Response {
	return sojourn.Response{Seq: r.Int(0), Source: r.Text(1), MessageID: r.Text(2), Kind: r.Text(3), Key: r.Text(4), Job: sojourn.ID(r.Int(5)),
		Generation: int32(r.Int(6)), Outcome: OutcomeCodes[r.Int(7)], Failed: r.Int(8) != 0, Progress: r.Int(9) != 0, Reason: r.Text(10),
		Error: string(r.Bytes(11)), ContentType: r.Text(12), ReceivedAt: jobrow.Time(r.Int(13)), ExpiresAt: jobrow.Time(r.Int(14)), Duplicates: int32(r.Int(15)), Body: r.Bytes(16),
		Replay: r.Int(17), By: r.Text(18)}
}
