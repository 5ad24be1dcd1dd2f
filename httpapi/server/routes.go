package server

import (
	"net/http"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/asks"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/config"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/events"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/stats"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/tags"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/triage"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/workers"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/workflows"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/operation"
	"github.com/sojourn-queue/sojourn/workflow"
)

// routes is the whole API.
var routes = slices.Concat(
	tagged("jobs",
		op(http.MethodPost, "/v1/jobs", "enqueueJob", "Enqueue one job. 201: it is new; 200: it was there before", access.VerbEnqueue, admission.Enqueueing, enqueueOne),
		op(http.MethodPost, "/v1/jobs/batch", "enqueueJobs", "Enqueue up to 1,000 jobs, all or none", access.VerbEnqueue, admission.Enqueueing, enqueueBatch),
		raw(op(http.MethodPost, "/v1/jobs/raw", "enqueueRaw", "Enqueue one job whose args are the body, byte for byte, with its content type", access.VerbEnqueue, admission.Enqueueing, enqueueRaw)),
		raw(op(http.MethodPost, "/v1/jobs/stream", "enqueueStream", "Enqueue one job a line (NDJSON), with an acknowledgement a line, in order", access.VerbEnqueue, admission.Enqueueing, enqueueStream)).but(filtered),
		op(http.MethodGet, "/v1/jobs", "listJobs", "List jobs in the order of their ids", access.VerbRead, admission.Reading, listJobs),
		op(http.MethodPost, "/v1/jobs/find", "findJobs", "List jobs; the filter is in the body, so that it may be long", access.VerbRead, admission.Reading, findJobs),
		op(http.MethodPost, "/v1/jobs/edit", "editJobs", "Cancel, fail, redrive, release, purge or change the jobs that the filter finds, at most 1,000", access.VerbOperate, admission.Enqueueing, editJobs),
		op(http.MethodGet, "/v1/jobs/{id}", "getJob", "One job; with wait: once it is final, or as it is when the time is over", access.VerbRead, admission.Reading, getJob),
		op(http.MethodGet, "/v1/jobs/{id}/args", "getArgs", "The args of a job, byte for byte", access.VerbReadArgs, admission.Reading, getArgs),
		op(http.MethodGet, "/v1/jobs/{id}/result", "getResult", "The result of a job, byte for byte", access.VerbReadArgs, admission.Reading, getResult),
		op(http.MethodGet, "/v1/jobs/{id}/history", "getHistory", "What happened to a job, oldest first", access.VerbRead, admission.Reading, getHistory),
		op(http.MethodGet, "/v1/jobs/{id}/log", "getLog", "The lines of a job's own log, oldest first", access.VerbRead, admission.Reading, getLog),
		op(http.MethodPost, "/v1/jobs/{id}/log", "writeLog", "Add a line of an operator to a job's log, in any state of the job", access.VerbOperate, admission.Enqueueing, onStore(triage.WriteLog)).but(hidden),
		op(http.MethodGet, "/v1/jobs/{id}/why", "whyJob", "Whether a job can be claimed now and, if not, what it waits for", access.VerbRead, admission.Reading, whyJob),
	),
	tagged("responses",
		op(http.MethodPost, "/v1/responses", "respond", "Store one response and give it to the job that it answers", access.VerbRespond, admission.Enqueueing, respondOne),
		op(http.MethodPost, "/v1/responses/batch", "respondAll", "Store up to 1,000 responses, all or none", access.VerbRespond, admission.Enqueueing, respondBatch),
		op(http.MethodPost, "/v1/responses/ask", "readAsk", "The question of a wait, and its answer, for whoever has the capability", access.VerbRespond, admission.Reading, onStore(asks.Read)).but(hidden),
		op(http.MethodGet, "/v1/inbox", "listInbox", "List responses, newest first", access.VerbReadArgs, admission.Reading, listInbox),
		op(http.MethodPost, "/v1/inbox/edit", "editInbox", "Match, retry or discard one response", access.VerbOperate, admission.Enqueueing, editInbox),
		op(http.MethodGet, "/v1/inbox/counts", "countInbox", "What lies in the inbox, and what came lately, in numbers", access.VerbRead, admission.Reading, countInbox),
		op(http.MethodGet, "/v1/inbox/near", "nearMisses", "Live jobs and unmatched responses whose key is nearly this one", access.VerbRead, admission.Reading, nearMisses),
	),
	tagged("work",
		op(http.MethodPost, "/v1/claim", "claim", "Take ready jobs under leases; with wait, as soon as there are any", access.VerbWork, admission.Claiming, claim),
		op(http.MethodPost, "/v1/extend", "extend", "Prolong leases (the worker's heartbeat)", access.VerbWork, admission.Finishing, extend),
		op(http.MethodPost, "/v1/save", "save", "Write checkpoint, progress, key and log lines under leases, and extend them", access.VerbWork, admission.Finishing, save),
		op(http.MethodPost, "/v1/finish", "finish", "End steps; repeating the same outcome is safe", access.VerbWork, admission.Finishing, finish),
		op(http.MethodGet, "/v1/workers", "listWorkers", "List workers in the order of their ids: what they ask for, what they run, when they were seen", access.VerbRead, admission.Reading, listWorkers),
		op(http.MethodPost, "/v1/workers/{worker}/drain", "drainWorker", "Give a worker no more jobs; what it runs goes on", access.VerbOperate, admission.Enqueueing, drainWorker),
		op(http.MethodPost, "/v1/workers/{worker}/leave", "leaveWorker", "Take a worker of the same token that has stopped off the list; with leases it stays until they end", access.VerbWork, admission.Finishing, leaveWorker).but(shared),
		op(http.MethodDelete, "/v1/workers/{worker}", "forgetWorker", "Remove a worker and end its leases, of one that lives with force; repeat it while the answer has more", access.VerbOperate, admission.Enqueueing, onStore(workers.Forget)),
		op(http.MethodPost, "/v1/ids", "leaseIDs", "Lease a block of ids for new jobs, good for 15 minutes", access.VerbEnqueue, admission.Enqueueing, leaseIDs).but(shared),
	),
	tagged("queues",
		op(http.MethodGet, "/v1/queues", "listQueues", "List queues with their counts", access.VerbRead, admission.Reading, listQueues).but(filtered),
		op(http.MethodPut, "/v1/queues/{queue}", "setQueue", "Make these the settings in force, all of them; what differs from the declared ones becomes the operator's", access.VerbAdmin, admission.Enqueueing, changeQueue(sojourn.Store.SetQueue)),
		op(http.MethodPut, "/v1/queues/{queue}/declared", "declareQueue", "Store what a program declares, all of it; what operators have set or paused stays", access.VerbAdmin, admission.Enqueueing, changeQueue(sojourn.Store.DeclareQueue)),
		op(http.MethodPatch, "/v1/queues/{queue}", "updateQueue", "Change single settings for an operator; null takes one back to what is declared", access.VerbAdmin, admission.Enqueueing, changeQueue(sojourn.Store.UpdateQueue)),
		op(http.MethodPost, "/v1/queues/{queue}/pause", "pauseQueue", "Pause or resume a queue, or kinds in it", access.VerbAdmin, admission.Enqueueing, changeQueue(pausing)),
		op(http.MethodDelete, "/v1/queues/{queue}", "forgetQueue", "Remove an empty queue; with force also what is in it", access.VerbAdmin, admission.Enqueueing, forgetQueue),
		op(http.MethodPost, "/v1/queues/{queue}/hold", "holdQueue", "Start nothing of a queue for some time; 0s ends a hold", access.VerbOperate, admission.Enqueueing, holdQueue),
		op(http.MethodGet, "/v1/queues/{queue}/why", "whyQueue", "What holds the jobs of a queue back", access.VerbRead, admission.Reading, whyQueue),
	),
	tagged("workflows",
		op(http.MethodGet, "/v1/workflows", "listWorkflows", "List workflows in the order of their names; with wait, once one is final", access.VerbRead, admission.Reading, listWorkflows).but(filtered),
		op(http.MethodPut, "/v1/workflows/{workflow}", "startWorkflow", "Store a workflow with its members, all or none; the same workflow again is a duplicate", access.VerbEnqueue, admission.Enqueueing, onStore(workflows.Start)),
		op(http.MethodGet, "/v1/workflows/{workflow}/members", "listMembers", "List members in the order of their names", access.VerbRead, admission.Reading, onStore(workflows.ListMembers)).but(hidden),
		op(http.MethodPost, "/v1/workflows/{workflow}/members", "appendMembers", "Add members to an open workflow, all or none", access.VerbEnqueue, admission.Enqueueing, onStore(workflows.Append)).but(hidden),
		op(http.MethodPost, "/v1/workflows/{workflow}/close", "closeWorkflow", "End the time in which a workflow takes members", access.VerbEnqueue, admission.Enqueueing, onStore(workflows.Change(workflow.ActionClose))).but(hidden),
		op(http.MethodPost, "/v1/workflows/{workflow}/cancel", "cancelWorkflow", "Cancel all members that are not final", access.VerbOperate, admission.Enqueueing, onStore(workflows.Change(workflow.ActionCancel))).but(hidden),
		op(http.MethodPost, "/v1/workflows/{workflow}/redrive", "redriveWorkflow", "Run all failed and cancelled members again", access.VerbOperate, admission.Enqueueing, onStore(workflows.Change(workflow.ActionRedrive))).but(hidden),
	),
	tagged("failures",
		op(http.MethodGet, "/v1/failures", "listFailures", "List failure groups, those with the latest failures first", access.VerbRead, admission.Reading, onStore(triage.ListFailures)).but(filtered),
		op(http.MethodGet, "/v1/failures/{failure}", "getFailure", "One failure group with exact counts", access.VerbRead, admission.Reading, onStore(triage.GetFailure)).but(hidden),
		op(http.MethodPost, "/v1/failures/{failure}/mute", "muteFailure", "Leave a failure group out of lists, or end that", access.VerbOperate, admission.Enqueueing, onStore(triage.MuteFailure)).but(hidden),
	),
	tagged("statistics",
		op(http.MethodGet, "/v1/stats", "readStatistics", "Numbers and times of jobs by day, queue and kind, for the last days in UTC", access.VerbRead, admission.Reading, onStore(stats.Read)).but(filtered),
	),
	tagged("events",
		op(http.MethodGet, "/v1/followers", "listFollowers", "List the followers of events that the token has made", access.VerbRead, admission.Reading, onStore(events.List)).but(filtered),
		op(http.MethodPut, "/v1/followers/{follower}", "follow", "Make a follower: from now on transitions of jobs are stored for it", access.VerbRead, admission.Enqueueing, onStore(events.Follow)),
		op(http.MethodPost, "/v1/followers/{follower}/read", "readEvents", "Acknowledge and read events; with wait, as soon as there are any", access.VerbRead, admission.Reading, readEvents).but(hidden),
		op(http.MethodGet, "/v1/followers/{follower}/events", "streamEvents", "Events as a stream (SSE); Last-Event-ID acknowledges those up to it", access.VerbRead, admission.Reading, streamEvents).but(hidden),
		op(http.MethodDelete, "/v1/followers/{follower}", "unfollow", "Delete a follower", access.VerbRead, admission.Enqueueing, onStore(events.Delete)).but(hidden),
	),
	tagged("tags",
		op(http.MethodGet, "/v1/tags", "listTags", "List tags with the numbers of their jobs, the most frequent first", access.VerbRead, admission.Reading, onStore(tags.Count)).but(filtered),
		op(http.MethodGet, "/v1/tags/{tag}", "listTaggedJobs", "List the jobs of a tag in the order in which they got it", access.VerbRead, admission.Reading, onStore(tags.Jobs)).but(filtered),
	),
	tagged("operations",
		op(http.MethodGet, "/v1/operations", "listOperations", "List stored operations, the newest first", access.VerbOperate, admission.Reading, onStore(triage.ListOperations)).but(filtered),
		op(http.MethodPost, "/v1/operations", "startOperation", "Redrive, cancel, fail, release, purge or change many jobs by a stored operation", access.VerbOperate, admission.Enqueueing, startOperation),
		op(http.MethodGet, "/v1/operations/{operation}", "getOperation", "One stored operation with its progress", access.VerbOperate, admission.Reading, onStore(triage.GetOperation)).but(hidden),
		op(http.MethodPost, "/v1/operations/{operation}/pause", "pauseOperation", "Stop a stored operation until it is resumed", access.VerbOperate, admission.Enqueueing, onStore(triage.ChangeOperation(operation.ActionPause))).but(hidden),
		op(http.MethodPost, "/v1/operations/{operation}/resume", "resumeOperation", "Go on with a paused or stopped operation", access.VerbOperate, admission.Enqueueing, onStore(triage.ChangeOperation(operation.ActionResume))).but(hidden),
		op(http.MethodPost, "/v1/operations/{operation}/cancel", "cancelOperation", "End a stored operation; jobs that were changed stay so", access.VerbOperate, admission.Enqueueing, onStore(triage.ChangeOperation(operation.ActionCancel))).but(hidden),
	),
	tagged("schedules",
		op(http.MethodGet, "/v1/schedules", "listSchedules", "List schedules in the order of their names", access.VerbRead, admission.Reading, listSchedules).but(filtered),
		op(http.MethodPut, "/v1/schedules/{schedule}", "setSchedule", "Store a schedule, in the place of one with the same name; the answer has the next ticks", access.VerbEnqueue, admission.Enqueueing, setSchedule(schedule.ModeSet)),
		op(http.MethodPut, "/v1/schedules/{schedule}/declared", "declareSchedule", "Store what a program declares; the same declaration changes nothing", access.VerbEnqueue, admission.Enqueueing, setSchedule(schedule.ModeDeclare)),
		op(http.MethodPost, "/v1/schedules/{schedule}/test", "testSchedule", "Check a schedule and show its next ticks; nothing is stored", access.VerbEnqueue, admission.Reading, setSchedule(schedule.ModeTest)),
		op(http.MethodPost, "/v1/schedules/{schedule}/pause", "pauseSchedule", "Stop the ticks of a schedule", access.VerbOperate, admission.Enqueueing, changeSchedule(schedule.ActionPause)).but(hidden),
		op(http.MethodPost, "/v1/schedules/{schedule}/resume", "resumeSchedule", "End a pause; catch_up decides about the ticks that came meanwhile", access.VerbOperate, admission.Enqueueing, changeSchedule(schedule.ActionResume)).but(hidden),
		op(http.MethodPost, "/v1/schedules/{schedule}/run", "runSchedule", "Make one job of a schedule now", access.VerbEnqueue, admission.Enqueueing, changeSchedule(schedule.ActionRun)).but(hidden),
		op(http.MethodDelete, "/v1/schedules/{schedule}", "deleteSchedule", "Remove a schedule; jobs that it has made go on", access.VerbOperate, admission.Enqueueing, changeSchedule(schedule.ActionDelete)).but(hidden),
	),
	tagged("store",
		op(http.MethodGet, "/v1/status", "getStatus", "Describe the store", access.VerbRead, admission.Reading, getStatus).but(shared),
		op(http.MethodPost, "/v1/sweep", "sweep", "Handle what is overdue; the server does so by itself", access.VerbWork, admission.Enqueueing, sweep).but(shared),
		op(http.MethodPost, "/v1/check", "checkStore", "Check the store's own invariants, as sojourn doctor does", access.VerbAdmin, admission.Reading, check),
		op(http.MethodPost, "/v1/repair", "repairStore", "Make the sums of the weight in flight what the jobs hold, as sojourn doctor --repair does", access.VerbAdmin, admission.Enqueueing, repair),
		op(http.MethodGet, "/v1/config", "listConfig", "List the settings of the store", access.VerbAdmin, admission.Reading, onStore(config.List)),
		op(http.MethodPut, "/v1/config/{setting}", "setConfig", "Set a setting of the store for all its processes", access.VerbAdmin, admission.Enqueueing, onStore(config.Set)),
		op(http.MethodDelete, "/v1/config/{setting}", "unsetConfig", "Remove what was set: a known setting has its default again", access.VerbAdmin, admission.Enqueueing, onStore(config.Unset)),
		op(http.MethodGet, "/v1/audit", "listAudit", "What operators did through servers, newest first", access.VerbAdmin, admission.Reading, listAudit),
	),
)
