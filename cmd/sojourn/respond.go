package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
)

const respondHelp = `Brings an answer to a job: by its kind and key, by its id, or by the token of one attempt. What became of
it is no error but the output:

  applied    the job has taken it
  early      stored, until a job awaits it
  duplicate  its source and message id were there before
  late       its job has ended, or the attempt that it could end
  stale      its token belongs to another attempt
  unmatched  progress for a key that no job has

With --progress it is no answer but a sign of life: the body becomes the job's progress text, and the beat of its wait starts anew.

  sojourn respond charge_card order-42 --body '{"approved":true}' --message-id evt_77
  sojourn respond charge_card order-42 --progress --body 'the bank has it'
  sojourn respond --job 1001 --failed --reason no_route --error 'the bank does not answer'`

func (a *app) respondCommand() *cobra.Command {
	var r sojourn.Response
	var body string
	var job int64
	cmd := &cobra.Command{Use: "respond KIND KEY | --job ID | --token TOKEN", Short: "bring an answer to a job", Long: respondHelp,
		Args: cobra.RangeArgs(0, 2)}
	fl := cmd.Flags()
	fl.Int64Var(&job, "job", 0, "the job's `id`")
	fl.StringVar(&r.Token, "token", "", "the capability of one attempt")
	fl.StringVar(&body, "body", "", "the answer: `JSON`, @FILE, or - for standard input")
	fl.StringVar(&r.ContentType, "content-type", "application/json", "what the body is; JSON is checked")
	fl.StringVar(&r.MessageID, "message-id", "", "the sender's own `id` of the message; a repeat is a duplicate (default a random one)")
	fl.StringVar(&r.Source, "source", "cli", "where it came from; message ids are unique for each source")
	fl.BoolVar(&r.Failed, "failed", false, "an error response: it ends the attempt")
	fl.BoolVar(&r.Progress, "progress", false, "a sign of life and no answer; the body is plain text")
	fl.StringVar(&r.Reason, "reason", "", "of --failed: a short stable class")
	fl.StringVar(&r.Error, "error", "", "of --failed: the error itself")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		r.Job = sojourn.ID(job)
		if r.Progress && !fl.Changed("content-type") {
			r.ContentType = "text/plain"
		}
		if err := address(&r, args, "--job, or --token"); err != nil {
			return err
		}
		if r.Body, err = a.bytesFrom("body", body); err != nil {
			return err
		}
		if len(r.Body) > 0 {
			if err := checkJSON("body", r.ContentType, r.Body); err != nil {
				return err
			}
		}
		if !r.Failed && (r.Reason != "" || r.Error != "") {
			return sojourn.Invalid("failed", "--reason and --error belong to an error response: add --failed")
		}
		if err := r.Validate(sojourn.MaxMaxBytes); err != nil {
			return err
		}
		return a.with(func(c *sojourn.Client) error { return a.respond(cmd.Context(), c, &r) })
	}
	return cmd
}

// address takes KIND and KEY from the arguments; others are the flags that may stand for them. That
// just one address is given, Validate checks.
func address(r *sojourn.Response, args []string, others string) error {
	switch len(args) {
	case 1:
		return sojourn.Invalid("key", "is missing: give KIND and KEY, or %s", others)
	case 2:
		r.Kind, r.Key = args[0], args[1]
		if r.Key == "" {
			return sojourn.Invalid("key", "is empty")
		}
	}
	return nil
}

func (a *app) respond(ctx context.Context, c *sojourn.Client, r *sojourn.Response) error {
	answer, err := c.Respond(ctx, r)
	if err != nil {
		return err
	}
	return a.printResponded(answer)
}

func (a *app) printResponded(answer sojourn.Responded) error {
	if a.asJSON() {
		return a.json(answer)
	}
	if answer.Job == 0 && answer.Outcome == sojourn.Unmatched {
		return a.printf("%s: response %d, no job has the key\n", answer.Outcome, answer.Seq)
	}
	if answer.Job == 0 {
		return a.printf("%s: response %d, no job yet\n", answer.Outcome, answer.Seq)
	}
	return a.printf("%s: response %d, job %d\n", answer.Outcome, answer.Seq, answer.Job)
}
