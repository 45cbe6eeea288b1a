package endpoint

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

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
	if err := lastError(failure.NodeLost, failure.NodeLost); err != failure.NodeLost {
		t.Errorf("the last attempt may have run, too: %v", err)
	}
	if err := lastError(nil, failure.NodeLost); err != nil {
		t.Errorf("the last attempt has succeeded: %v", err)
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

// TestAnEndpointThatIsDetachedAbandonsItsShards checks that all shards are abandoned by Detach itself, and
// one shard by AbandonShard under its token: no local sender reaches an abandoned shard.
func TestAnEndpointThatIsDetachedAbandonsItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		h := n.e.host.Load()
		n.e.locals[0].Store(h.Shard(0))
		if n.e.AbandonShard(0, otherToken); h.Shard(0) == nil || n.e.locals[0].Load() == nil {
			t.Error("a shard is abandoned under another token")
		}
		if n.e.AbandonShard(0, token); h.Shard(0) != nil || n.e.locals[0].Load() != nil {
			t.Error("a shard runs, or is reached by local senders, after AbandonShard")
		}
		if err := n.e.StartShard(0, otherToken, nil); err != nil {
			t.Fatal(err)
		}
		wait := n.e.Detach()
		if h.Shard(0) != nil {
			t.Error("a shard runs after Detach, before its caller waits for the handlers")
		}
		if err := wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestAStartIsNoControlMessage checks that Control is called with messages alone: a request that only starts
// its entity has none.
func TestAStartIsNoControlMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		var asked []string
		n.e.spec.Control = func(req string) bool { asked = append(asked, req); return false }
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		for _, start := range []bool{true, false} {
			if err := n.e.Tell(t.Context(), Origin{}, Address{Shard: 1, ID: "e", Start: start}, "hello"); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(asked, []string{"hello"}) || len(n.takeSent()) != 2 {
			t.Errorf("Control was called with %q, want the message alone", asked)
		}
	})
}
