package endpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
)

// codeOf returns the code and the text under which an error of a handler, or of the runtime of
// entities, is sent.
func codeOf(err error) (frames.Code, string) {
	switch {
	case err == nil:
		return frames.CodeOK, ""
	case isSaid(err):
		return frames.CodeHandler, frames.CutText(err.Error())
	case err == failure.MailboxFull:
		return frames.CodeMailboxFull, ""
	case err == failure.Abandoned:
		return frames.CodeAbandoned, ""
	case err == activation.ErrStarted:
		return frames.CodeStarted, ""
	case err == activation.ErrNotHosted:
		return frames.CodeMoved, ""
	case err == activation.ErrExpired:
		return frames.CodeExpired, ""
	case err == failure.NotKept:
		return frames.CodeNotKept, ""
	case err == failure.NoWorker:
		return frames.CodeNoWorker, ""
	}
	if errors.Is(err, failure.State) {
		return frames.CodeState, frames.CutText(strings.TrimPrefix(err.Error(), failure.State.Error()+": "))
	}
	if errors.Is(err, failure.Restore) {
		return frames.CodeRestore, frames.CutText(err.Error())
	}
	var panicked *activation.PanicError
	if errors.As(err, &panicked) {
		return frames.CodePanicked, frames.CutText(panicked.Value)
	}
	return frames.CodeHandler, frames.CutText(err.Error())
}

// isSaid reports whether a handler returned err, whatever err wraps.
func isSaid(err error) bool {
	_, is := err.(*activation.Said)
	return is
}

// plainErrors are the errors of codes without a text.
var plainErrors = map[frames.Code]error{
	frames.CodeMailboxFull: failure.MailboxFull,
	frames.CodeAbandoned:   failure.Abandoned,
	frames.CodeExpired:     context.DeadlineExceeded,
	frames.CodeSettings:    failure.Settings,
	frames.CodeUnknownType: failure.UnknownType,
	frames.CodeNotKept:     failure.NotKept,
	frames.CodeNoWorker:    failure.NoWorker,
	frames.CodeMoved:       failure.Moved,
}

// errorOf returns the error for a result that another node sent, nil for success.
func errorOf(c frames.Code, text string) error {
	switch c {
	case frames.CodeOK, frames.CodeStarted:
		return nil
	case frames.CodeHandler:
		return &activation.Said{Text: text}
	case frames.CodePanicked:
		return &activation.PanicError{Value: text}
	case frames.CodeCodec:
		return fmt.Errorf("%w at the home: %s", failure.Codec, text)
	case frames.CodeTooLarge:
		return fmt.Errorf("%w: the response", failure.TooLarge)
	case frames.CodeState:
		return fmt.Errorf("%w: %s", failure.State, text)
	case frames.CodeRestore:
		return fmt.Errorf("%w: %s", failure.Restore, text)
	}
	if err := plainErrors[c]; err != nil {
		return err
	}
	return fmt.Errorf("%w: result %d of a later version", frames.ErrMalformed, c)
}
