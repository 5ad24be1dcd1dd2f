package wire

import "github.com/sojourn-queue/sojourn/store/ask"

// AskRequest names a question.
type AskRequest struct {
	Token string `json:"token" doc:"the capability of the wait, which is the last part of its link"`
}

// Ask is a question and its outcome.
type Ask struct{ ask.Status }
