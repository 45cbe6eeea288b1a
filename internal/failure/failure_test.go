package failure

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestEachCodeHasGroupAndText checks that no code was left out of the table, and that codes of
// a group stand together, since the first match decides.
func TestEachCodeHasGroupAndText(t *testing.T) {
	texts := map[string]Code{}
	ended := map[Group]bool{}
	for c := MailboxFull; c < codes; c++ {
		if c.Group() == 0 || c.Error() == "" {
			t.Errorf("code %d has the group %d and the text %q", c, c.Group(), c.Error())
		}
		if other, twice := texts[c.Error()]; twice {
			t.Errorf("codes %d and %d have one text: %v", other, c, c)
		}
		texts[c.Error()] = c
		if before := c - 1; before > 0 && before.Group() != c.Group() {
			if ended[before.Group()] = true; ended[c.Group()] {
				t.Errorf("the codes of group %d do not stand together", c.Group())
			}
		}
	}
	for _, c := range []Code{0, codes} {
		if c.Group() != 0 || c.Error() != "sharding: unknown failure" {
			t.Errorf("code %d has the group %d and the text %q", c, c.Group(), c.Error())
		}
	}
}

// TestGroupOf checks which of several wrapped codes decides.
func TestGroupOf(t *testing.T) {
	for _, c := range []struct {
		err                error
		group              Group
		retryable, unknown bool
	}{
		{errors.New("other"), 0, false, false},
		{BadID, Invalid, false, false},
		{context.Canceled, OutcomeIsUnknown, true, true},
		{Because(MailboxFull, context.Canceled), Overloaded, true, false},
		{fmt.Errorf("twice: %w", Because(Codec, Abandoned)), OutcomeIsUnknown, true, true},
		{&Retried{Last: NodeStopping, Unknown: NodeLost}, OutcomeIsUnknown, false, true},
		{&Retried{Last: NoHome, Unknown: NodeLost}, OutcomeIsUnknown, true, true},
	} {
		if g := GroupOf(c.err); g != c.group || Retryable(c.err) != c.retryable || OutcomeUnknown(c.err) != c.unknown {
			t.Errorf("%v: group %d, Retryable %v, OutcomeUnknown %v", c.err, g, Retryable(c.err), OutcomeUnknown(c.err))
		}
	}
	if err := Because(NoHome, context.Canceled); err.Error() != "sharding: shard has no home: context canceled" || !errors.Is(err, NoHome) || !errors.Is(err, context.Canceled) {
		t.Errorf("Because: %v", err)
	}
}
