package endpoint

import (
	"context"
	"errors"
	"testing"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
)

// TestABatchInserterFollowsItsHost checks that a batch does not insert into the mailboxes of a
// former host.
func TestABatchInserterFollowsItsHost(t *testing.T) {
	newHost := func() *activation.Host[int, int, int] {
		h := activation.NewHost(activation.Config[int, int, int]{Shards: 1})
		t.Cleanup(func() { _ = h.Close(context.Background()) })
		return h
	}
	b, h := &typedBatch[int, int, int]{}, newHost()
	first := b.inserterOf(h)
	if b.inserterOf(h) != first {
		t.Error("another BatchInserter for the same host")
	}
	if b.inserterOf(newHost()) == first {
		t.Error("the BatchInserter of a former host")
	}
}

// TestTheLastErrorHidesNoEarlierRun checks the error of an ask with several attempts.
func TestTheLastErrorHidesNoEarlierRun(t *testing.T) {
	for _, answer := range []error{&activation.Said{Text: "no"}, &activation.PanicError{Value: "no"}} {
		if err := lastError(answer, failure.NodeLost); failure.OutcomeUnknown(err) || failure.Retryable(err) {
			t.Errorf("the handler has answered, after an attempt that was lost: %v", err)
		}
	}
	if err := lastError(failure.NodeStopping, failure.NodeLost); !failure.OutcomeUnknown(err) || failure.Retryable(err) {
		t.Errorf("no further attempt can be made here: %v", err)
	}
	if err := lastError(failure.NodeStopping, nil); err != failure.NodeStopping {
		t.Errorf("no attempt may have run: %v", err)
	}
}

// TestErrorsTravelAsCodes checks that an error of the runtime is the same for the callers of all
// nodes: its code gives it back.
func TestErrorsTravelAsCodes(t *testing.T) {
	for _, err := range []error{
		failure.MailboxFull, failure.Abandoned, failure.NotKept, failure.NoWorker, failure.State, failure.Restore,
		&activation.PanicError{Value: "index out of range"}, &activation.Said{Text: "no such order"},
	} {
		c, text := codeOf(err)
		back := errorOf(c, text)
		if failure.GroupOf(back) != failure.GroupOf(err) {
			t.Errorf("%v arrives as %v", err, back)
		}
		if again, sameText := codeOf(back); again != c || c != frames.CodeState && c != frames.CodeRestore && sameText != text {
			t.Errorf("%v: code %d with %q, then %d with %q", err, c, text, again, sameText)
		}
	}
	for err, want := range map[error]error{ // order-free: a table
		nil: nil, activation.ErrStarted: nil, activation.ErrNotHosted: failure.Moved, activation.ErrExpired: context.DeadlineExceeded,
	} {
		if got := errorOf(codeOf(err)); got != want {
			t.Errorf("%v arrives as %v", err, got)
		}
	}
	var said *activation.Said
	if err := errorOf(codeOf(errors.New("other"))); !errors.As(err, &said) || said.Text != "other" {
		t.Errorf("another error arrives as %v", err)
	}
	if err := errorOf(100, ""); !errors.Is(err, frames.ErrMalformed) {
		t.Errorf("an unknown code is %v", err)
	}
}
