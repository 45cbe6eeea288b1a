package sharding

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// allErrors are the exported errors of this package.
var allErrors = map[string]error{
	"ErrUnknownType": ErrUnknownType, "ErrBadID": ErrBadID, "ErrTooLarge": ErrTooLarge, "ErrCodec": ErrCodec,
	"ErrSettings": ErrSettings, "ErrMailboxFull": ErrMailboxFull, "ErrBufferFull": ErrBufferFull,
	"ErrNotReady": ErrNotReady, "ErrNoHome": ErrNoHome, "ErrPaused": ErrPaused, "ErrNodeStopping": ErrNodeStopping,
	"ErrMoved": ErrMoved, "ErrNodeLost": ErrNodeLost, "ErrAbandoned": ErrAbandoned, "ErrPanicked": ErrPanicked,
	"ErrRestore": ErrRestore, "ErrTimer": ErrTimer, "ErrContextEnded": ErrContextEnded, "ErrHeaders": ErrHeaders, "ErrSelfAsk": ErrSelfAsk, "ErrNoDeadline": ErrNoDeadline, "ErrStash": ErrStash, "ErrStashFull": ErrStashFull,
	"ErrNoWorker": ErrNoWorker, "ErrNoShard": ErrNoShard, "ErrNoRole": ErrNoRole, "ErrNoAnswer": ErrNoAnswer,
	"ErrWindowFull": ErrWindowFull, "ErrReliableClosed": ErrReliableClosed, "ErrUnconfirmed": ErrUnconfirmed,
	"ErrResultLost": ErrResultLost, "ErrState": ErrState, "ErrNotKept": ErrNotKept,
}

// allCodes are the codes of errors.
var allCodes = map[string]Code{
	"ErrInvalid": ErrInvalid, "ErrIncompatible": ErrIncompatible, "ErrOverloaded": ErrOverloaded,
	"ErrUnavailable": ErrUnavailable, "ErrWrongNode": ErrWrongNode, "ErrOutcomeUnknown": ErrOutcomeUnknown,
	"ErrEntityState": ErrEntityState, "ErrHandler": ErrHandler,
}

// TestTheTableOfErrorsIsTrue compares doc.go's tables with the codes and errors that the
// package exports, and with the results of Retryable and OutcomeUnknown for each error,
// bare, wrapped, and as the *Error that a call returns.
func TestTheTableOfErrorsIsTrue(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	retryable, rows := map[string]string{}, map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(Err\S+)\s{2,}(yes|no|elsewhere|maybe run)\s{2,}\S`).FindAllStringSubmatch(string(text), -1) {
		retryable[m[1]] = m[2]
	}
	for _, m := range regexp.MustCompile(`(?m)^//\t(\S+)(?: errors)?\s+(Err\S+)\s+\S`).FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	if len(retryable) != len(allCodes) {
		t.Errorf("%d rows for %d codes", len(retryable), len(allCodes))
	}
	named := map[string]error{
		"*HandlerError": &HandlerError{Text: "no"}, "context's": context.DeadlineExceeded,
	}
	for _, name := range exportedErrors(t) {
		if named[name] = allErrors[name]; allErrors[name] == nil {
			t.Errorf("%s is missing in this test", name)
		}
	}
	for name, err := range named {
		code, there := allCodes[rows[name]]
		said := retryable[rows[name]]
		if !there || err == nil {
			t.Errorf("%s has no row in doc.go's table", name)
			continue
		}
		for _, err := range []error{err, fmt.Errorf("somewhere: %w", err)} {
			var e *Error
			if got := inGroup(err); !errors.As(got, &e) || e.Code != code || !errors.Is(got, code) || !errors.Is(got, err) || got.Error() != err.Error() {
				t.Errorf("%s: the error of a call is %#v, not of %v", name, got, code)
			} else if e.Retryable() != Retryable(err) || e.OutcomeUnknown() != OutcomeUnknown(err) {
				t.Errorf("%s: the methods of %#v differ from the functions", name, e)
			}
			if got := Retryable(err); got != (said == "yes" || said == "maybe run") {
				t.Errorf("%s: the table says %q, Retryable %v", name, said, got)
			}
			if got := OutcomeUnknown(err); got != (said == "maybe run") {
				t.Errorf("%s: the table says %q, OutcomeUnknown %v", name, said, got)
			}
		}
	}
	if len(rows) != len(named) {
		t.Errorf("%d rows for %d errors: %v", len(rows), len(named), rows)
	}
}

func exportedErrors(t *testing.T) (names []string) {
	fset := token.NewFileSet()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, o := range f.Scope.Objects {
			if o.Kind == ast.Var && strings.HasPrefix(name, "Err") {
				names = append(names, name)
			}
		}
	}
	return names
}
