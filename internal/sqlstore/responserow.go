package sqlstore

import "github.com/sojourn-queue/sojourn"

const outApplied int64 = 1

const outConflict int64 = 9

const outDiscarded int64 = 8

const outEarly int64 = 2

const outLate int64 = 4

const outParked int64 = 7

const outStale int64 = 5

const outUnmatched int64 = 6

// codes of sj_response.outcome.
var outcomeCodes = []sojourn.ResponseOutcome{"", sojourn.Applied, sojourn.Early, sojourn.Duplicate, sojourn.Late, sojourn.Stale, sojourn.Unmatched,
	sojourn.Parked, sojourn.Discarded, sojourn.Conflicting}

const qHandLate = `update sj_response set in_hand = 0, outcome = 4 where job in (ints($1)) and job > 0 and in_hand = 1`

const qKeptLate = `update sj_response set outcome = 4 where job in (ints($1)) and job > 0 and outcome = 2`

const qPutDown = `update sj_response set in_hand = 0 where job in (ints($1)) and job > 0 and in_hand = 1`
