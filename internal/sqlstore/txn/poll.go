package txn

// Waiting jobs with a poll interval have an index of their own, by the time of the next poll step.
// A claim that names their kind as pollable takes the due polls before it reads jobs that have not
// begun; the limit and the windows do not matter, because the job holds its weight already.

// Poll is the next poll step of a job.
type Poll struct {
	QueueKind
	At int64
}
