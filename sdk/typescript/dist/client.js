import { IdExpired, make, ofProblem, SojournError } from "./errors.js";
import { durationText, encode, enqueuedOf, Job, listed, NewJob, typed, wrap } from "./forms.js";
import { random } from "./json.js";
import { Transport } from "./transport.js";
const block = 1000; // ids that are drawn at once
/**
 * A server's jobs.
 *
 * Only calls with the same effect as once are repeated: an enqueue has its id and a response its message id before the first try. Connections are kept
 * by fetch. Under Node the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY are honoured, in lower case too; a server on this machine is reached directly.
 */
export class Client {
    /** @internal */
    transport;
    at = 0;
    limit = 0;
    drawing = Promise.resolve();
    constructor(url = "http://127.0.0.1:7575", options = {}) {
        this.transport = new Transport(url, { token: options.token ?? "", timeout: options.timeout ?? 60, retryFor: options.retryFor ?? 10,
            cleartext: options.cleartext ?? false });
    }
    /** Ends the calls under way. */
    close() {
        this.transport.close();
    }
    /** Any other call of the API, such as `request("GET", "/v1/queues")`. Bytes come as Uint8Array. `safe`: it may be repeated. */
    request(method, path, body, options = {}) {
        return this.transport.call(method, path, body, { safe: options.safe || method === "GET" });
    }
    /**
     * Stores a job: a kind with args and options, or a NewJob. It is on disk when this resolves. After UnknownOutcome or Unavailable, calling again with
     * the same NewJob is safe.
     */
    async enqueue(job, args, options) {
        try {
            return (await this.enqueueMany([typeof job === "string" ? new NewJob(job, args, options) : job]))[0];
        }
        catch (e) {
            if (e instanceof SojournError) {
                e.index = undefined;
            }
            throw e;
        }
    }
    /** Stores up to 1,000 jobs, all or none. With `partial` each for itself: `Enqueued.error` has what was wrong with it. */
    async enqueueMany(jobs, options = {}) {
        const mine = new Set(jobs.filter((j) => !j.id));
        await this.giveIds([...mine]);
        let out, again;
        try {
            out = await this.send(jobs, options.partial ?? false);
            again = out.flatMap((e, i) => (e.error instanceof IdExpired && mine.has(jobs[i]) ? [i] : []));
        }
        catch (e) {
            if (!(e instanceof IdExpired) || mine.size === 0) {
                throw e;
            }
            out = [];
            again = jobs.map((_, i) => i);
        }
        if (again.length > 0) { // ids out of an old block, which the server has refused before it wrote anything
            this.at = this.limit = 0;
            await this.giveIds(again.map((i) => jobs[i]).filter((j) => mine.has(j)));
            const answers = await this.send(again.map((i) => jobs[i]), options.partial ?? false);
            again.forEach((i, k) => { out[i] = answers[k]; });
        }
        return out;
    }
    async send(jobs, partial) {
        if (jobs.length === 0) {
            return [];
        }
        const forms = jobs.map((j, i) => {
            try {
                return j.form();
            }
            catch (e) {
                if (e instanceof SojournError) {
                    e.index = i;
                }
                throw e;
            }
        });
        return this.transport.call("POST", "/v1/jobs/batch", { jobs: forms, partial }, { safe: true, read: (a) => listed(a, "jobs", forms.length).map(enqueuedOf) });
    }
    /** Gives ids out of a block, so that most enqueues need no request for theirs. One at a time draws a block. */
    giveIds(jobs) {
        const give = async () => {
            if (this.limit - this.at < jobs.length) {
                const count = Math.max(block, jobs.length);
                this.at = await this.drawIds(count);
                this.limit = this.at + count;
            }
            jobs.forEach((j) => { j.id = this.at++; });
        };
        const given = this.drawing.then(give);
        this.drawing = given.catch(() => undefined);
        return given;
    }
    /** Draws 1 to 10,000 ids and returns the first; they are consecutive, and good for new jobs for 15 minutes. */
    async drawIds(count) {
        return this.transport.call("POST", "/v1/ids", { count }, { safe: true, read: (a) => typed(a.first, "number") });
    }
    /** A job, complete. NotFound if there is none. */
    async get(id) {
        return this.transport.call("GET", `/v1/jobs/${id}`, undefined, { safe: true, read: (a) => jobOf(a, id) });
    }
    /** The live job of a kind that has the key, else the newest final one. NotFound if there is none. */
    async getByKey(kind, key) {
        const [job] = await this.find({ kind, key, full: true });
        if (!job) {
            throw make("not_found", `no job of kind ${kind} has the key ${key}`, { status: 404 });
        }
        return job;
    }
    /** Lists jobs. */
    async find(f) {
        const body = { ids: f.ids, kind: f.kind, key: f.key, queue: f.queue, states: f.states, group: f.group, tag: f.tag, reason: f.reason,
            created_after: f.createdAfter, created_before: f.createdBefore, after: f.after, limit: f.limit, newest: f.newest, full: f.full,
            wait: f.wait === undefined ? undefined : durationText(f.wait, "wait") };
        return this.transport.call("POST", "/v1/jobs/find", body, { safe: true, read: (a) => listed(a, "jobs").map((j) => new Job(j)) });
    }
    /** The job once it is completed, failed or cancelled. A DOMException named TimeoutError after `timeout` seconds; default: no limit. */
    async wait(id, options = {}) {
        const end = options.timeout === undefined ? Infinity : performance.now() / 1000 + options.timeout;
        for (;;) {
            const poll = Math.max(Math.min(30, end - performance.now() / 1000), 0);
            const job = await this.transport.call("GET", `/v1/jobs/${id}?wait=${durationText(poll, "wait")}`, undefined, { safe: true, wait: poll, signal: options.signal, read: (a) => jobOf(a, id) });
            if (job.final) {
                return job;
            }
            if (performance.now() / 1000 >= end) {
                throw new DOMException(`job ${id} is still ${job.state} after ${options.timeout} s`, "TimeoutError");
            }
        }
    }
    /** What happened to a job, oldest first, as the API writes it. */
    async history(id) {
        return this.transport.call("GET", `/v1/jobs/${id}/history`, undefined, { safe: true, read: (a) => listed(a, "history") });
    }
    /** Answers a job. It is on disk when this resolves. */
    async respond(r) {
        const form = { kind: r.kind, key: r.key, job: r.job, token: r.token, message_id: r.messageId || random(16), source: r.source, failed: r.failed,
            progress: r.progress, reason: r.reason, error: r.error, content_type: r.contentType };
        if (r.body !== undefined) {
            const { bytes, contentType } = encode(r.body, r.contentType ?? "", "body");
            form.body = wrap(bytes);
            form.content_type = contentType;
        }
        if (r.ttl !== undefined) {
            form.ttl = durationText(r.ttl, "ttl");
        }
        return this.transport.call("POST", "/v1/responses", form, { safe: true,
            read: (a) => ({ outcome: typed(a.outcome, "string"), job: typed(a.job ?? 0, "number"), seq: typed(a.seq ?? 0, "number") }) });
    }
    /** Cancels a live job, a running one at once. Conflict if it ended otherwise; one that is cancelled already is no error. */
    cancel(id, o = {}) {
        return this.edit(id, { action: "cancel", by: o.by, reason: o.reason, refuse: o.refuseRunning }, true);
    }
    /** Fails a live job. */
    fail(id, o = {}) {
        return this.edit(id, { action: "fail", by: o.by, reason: o.reason, refuse: o.refuseRunning }, true);
    }
    /** Runs a failed or cancelled job again, in the next generation. With `generation`, the present one, a second call is a Conflict. */
    redrive(id, o = {}) {
        return this.edit(id, { action: "redrive", generation: o.generation, by: o.by }, false);
    }
    async edit(id, edit, safe) {
        const errors = await this.transport.call("POST", "/v1/jobs/edit", { filter: { ids: [id] }, edit }, { safe, read: (a) => listed(a, "items").map((i) => i.error && ofProblem(i.error)) });
        if (errors.length === 0) {
            throw make("not_found", `no job has the id ${id}`, { status: 404 });
        }
        if (errors[0]) {
            throw errors[0];
        }
    }
}
function jobOf(answer, id) {
    const job = new Job(answer);
    if (job.id !== id) {
        throw new TypeError("another job");
    }
    return job;
}
