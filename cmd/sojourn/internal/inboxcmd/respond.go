package inboxcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
)

const respondHelp = `Delivers a response to a job: by kind and key, by job id, or by the token of one attempt. The output is the
outcome; none of these is an error:

  applied    a job has taken it
  early      stored until a job awaits it
  duplicate  a response with the same source and message id exists
  late       the job or the attempt that it was for has ended
  stale      the token belongs to another attempt, or to a wait that was answered
  unmatched  progress for a key that no job has

With --progress it is a progress report, not an answer: the body becomes the job's progress text and restarts the beat of the wait.

  sojourn respond charge_card order-42 --body '{"approved":true}' --message-id evt_77
  sojourn respond charge_card order-42 --progress --body 'the bank has it'
  sojourn respond --job 1001 --failed --reason no_route --error 'the bank does not answer'`

func (a *app) respondCommand() *cobra.Command {
	var r sojourn.Response
	var body string
	var job int64
	cmd := &cobra.Command{Use: "respond KIND KEY | --job ID | --token TOKEN", Short: "deliver a response to a job", Long: respondHelp,
		Args: cobra.RangeArgs(0, 2)}
	fl := cmd.Flags()
	fl.Int64Var(&job, "job", 0, "the job's `id`")
	fl.StringVar(&r.Token, "token", "", "the secret response token of one attempt")
	fl.StringVar(&body, "body", "", "the answer: `JSON`, @FILE, or - for standard input")
	fl.StringVar(&r.ContentType, "content-type", "application/json", "content type of the body; JSON is validated")
	fl.StringVar(&r.MessageID, "message-id", "", "the sender's `id` of the message, for deduplication (default a random id)")
	fl.StringVar(&r.Source, "source", "cli", "name of the source; message ids are unique per source")
	fl.BoolVar(&r.Failed, "failed", false, "send an error response, which ends the attempt")
	fl.BoolVar(&r.Progress, "progress", false, "report progress instead of an answer; the body is plain text")
	fl.StringVar(&r.Reason, "reason", "", "with --failed: a short, stable class of the error")
	fl.StringVar(&r.Error, "error", "", "with --failed: the error text")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		r.Job = sojourn.ID(job)
		if r.Progress && !fl.Changed("content-type") {
			r.ContentType = "text/plain"
		}
		if err := address(&r, args, "--job, or --token"); err != nil {
			return err
		}
		if r.Body, err = a.BytesFrom("body", body); err != nil {
			return err
		}
		if len(r.Body) > 0 {
			if err := parse.CheckJSON("body", r.ContentType, r.Body); err != nil {
				return err
			}
		}
		if !r.Failed && (r.Reason != "" || r.Error != "") {
			return sojourn.Invalid("failed", "--reason and --error need an error response; add --failed")
		}
		if err := r.Validate(sojourn.MaxMaxBytes); err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error { return a.respond(cmd.Context(), c, &r) })
	}
	return cmd
}

// address takes KIND and KEY from the arguments; others are the flags that may stand for them. That
// just one address is given, Validate checks.
func address(r *sojourn.Response, args []string, others string) error {
	switch len(args) {
	case 1:
		return sojourn.Invalid("key", "the key is missing; give KIND and KEY, or %s", others)
	case 2:
		r.Kind, r.Key = args[0], args[1]
		if r.Key == "" {
			return sojourn.Invalid("key", "the key is empty; give KIND and KEY")
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
	if a.AsJSON() {
		return a.JSON(answer)
	}
	if answer.Job == 0 && answer.Outcome == sojourn.Unmatched {
		return a.Printf("%s: response %d, no job has the key\n", answer.Outcome, answer.Seq)
	}
	if answer.Job == 0 {
		return a.Printf("%s: response %d, no job yet\n", answer.Outcome, answer.Seq)
	}
	return a.Printf("%s: response %d, job %d\n", answer.Outcome, answer.Seq, answer.Job)
}
