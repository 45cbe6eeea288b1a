package sharding

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// codeOf returns the code and the text under which an error of a handler, or of the
// runtime of entities, is sent.
func codeOf(err error) (frames.Code, string) {
	switch {
	case err == nil:
		return frames.CodeOK, ""
	case isSaid(err):
		return frames.CodeHandler, frames.CutText(err.Error())
	case err == activation.ErrMailboxFull:
		return frames.CodeMailboxFull, ""
	case err == activation.ErrAbandoned:
		return frames.CodeAbandoned, ""
	case err == activation.ErrStarted:
		return frames.CodeStarted, ""
	case err == activation.ErrNotHosted:
		return frames.CodeMoved, ""
	case err == activation.ErrExpired:
		return frames.CodeExpired, ""
	}
	switch err {
	case ErrNotKept:
		return frames.CodeNotKept, ""
	case ErrNoWorker:
		return frames.CodeNoWorker, ""
	}
	if errors.Is(err, ErrState) {
		return frames.CodeState, frames.CutText(strings.TrimPrefix(err.Error(), ErrState.Error()+": "))
	}
	if errors.Is(err, activation.ErrRestore) {
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

// errorOf returns the error for a result that another node sent, nil for success.
func errorOf(c frames.Code, text string) error {
	switch c {
	case frames.CodeOK, frames.CodeStarted:
		return nil
	case frames.CodeHandler:
		return &HandlerError{Text: text}
	case frames.CodePanicked:
		return &PanicError{Value: text}
	case frames.CodeMailboxFull:
		return ErrMailboxFull
	case frames.CodeAbandoned:
		return ErrAbandoned
	case frames.CodeExpired:
		return context.DeadlineExceeded
	case frames.CodeCodec:
		return fmt.Errorf("%w at the home: %s", ErrCodec, text)
	case frames.CodeSettings:
		return ErrSettings
	case frames.CodeUnknownType:
		return ErrUnknownType
	case frames.CodeTooLarge:
		return fmt.Errorf("%w: the response", ErrTooLarge)
	}
	switch c {
	case frames.CodeState:
		return fmt.Errorf("%w: %s", ErrState, text)
	case frames.CodeNotKept:
		return ErrNotKept
	case frames.CodeNoWorker:
		return ErrNoWorker
	case frames.CodeMoved:
		return ErrMoved
	case frames.CodeRestore:
		return fmt.Errorf("%w: %s", ErrRestore, text)
	}
	return frames.ErrMalformed
}
