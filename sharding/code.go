package sharding

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/internal/activation"
)

// code says in one byte how an ask ended. The numbers never change.
type code byte

const (
	codeOK code = iota
	codeHandler
	codePanicked
	codeMailboxFull
	codeAbandoned
	codeExpired
	codeCodec
	codeSettings
	codeUnknownType
	codeTooLarge
	codeRestore
	codeMoved
	codeStarted
	codeState
	codeNotKept
	codeNoWorker
	codes
)

// textMax bounds the text of an error that travels.
const textMax = 1024

// codeOf turns an error of the entity runtime, or of a handler, into what
// travels.
func codeOf(err error) (code, string) {
	switch {
	case err == nil:
		return codeOK, ""
	case isSaid(err):
		return codeHandler, cutText(err.Error())
	case err == activation.ErrMailboxFull:
		return codeMailboxFull, ""
	case err == activation.ErrAbandoned:
		return codeAbandoned, ""
	case err == activation.ErrStarted:
		return codeStarted, ""
	case err == activation.ErrNotHosted:
		return codeMoved, ""
	case err == activation.ErrExpired:
		return codeExpired, ""
	}
	switch err {
	case ErrNotKept:
		return codeNotKept, ""
	case ErrNoWorker:
		return codeNoWorker, ""
	}
	if errors.Is(err, ErrState) {
		return codeState, cutText(strings.TrimPrefix(err.Error(), ErrState.Error()+": "))
	}
	if errors.Is(err, activation.ErrRestore) {
		return codeRestore, cutText(err.Error())
	}
	var panicked *activation.PanicError
	if errors.As(err, &panicked) {
		return codePanicked, cutText(panicked.Value)
	}
	return codeHandler, cutText(err.Error())
}

// isSaid reports whether err is the application's answer, whatever it wraps.
func isSaid(err error) bool {
	_, is := err.(*activation.Said)
	return is
}

func cutText(s string) string { return s[:min(len(s), textMax)] }

// err turns what travelled back into an error.
func (c code) err(text string) error {
	switch c {
	case codeOK, codeStarted:
		return nil
	case codeHandler:
		return &HandlerError{Text: text}
	case codePanicked:
		return &PanicError{Value: text}
	case codeMailboxFull:
		return ErrMailboxFull
	case codeAbandoned:
		return ErrAbandoned
	case codeExpired:
		return context.DeadlineExceeded
	case codeCodec:
		return fmt.Errorf("%w at the home: %s", ErrCodec, text)
	case codeSettings:
		return ErrSettings
	case codeUnknownType:
		return ErrUnknownType
	case codeTooLarge:
		return fmt.Errorf("%w: the response", ErrTooLarge)
	}
	switch c {
	case codeState:
		return fmt.Errorf("%w: %s", ErrState, text)
	case codeNotKept:
		return ErrNotKept
	case codeNoWorker:
		return ErrNoWorker
	case codeMoved:
		return ErrMoved
	case codeRestore:
		return fmt.Errorf("%w: %s", ErrRestore, text)
	}
	return errMalformed
}
