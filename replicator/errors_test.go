package replicator

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
)

// TestErrorTextsHaveAllParticulars pins the text of each code, the codes that it matches,
// and the methods of the Error.
func TestErrorTextsHaveAllParticulars(t *testing.T) {
	missing, disk := []gossip.NodeID{4, 5}, errors.New("no space left")
	stamp := crdt.Stamp{Time: 1_800_000_000_000<<tickBits | 3, Node: 6, Seq: 7}
	wall := stamp.Time>>tickBits - 60001
	for _, c := range []struct {
		err              Error
		text             string
		also             Code
		retryable, stays bool
	}{
		{Error{Code: ErrOutcomeUnknown, Level: Majority(0, 0), Need: 3, Got: 2, Missing: missing},
			"majority: 2 of 3 replicas answered in time, missing [0000000000000004 0000000000000005]: outcome unknown", 0, true, true},
		{Error{Code: ErrOutcomeUnknown, Level: Majority(0, 0), Need: 3, Got: 2, Missing: missing, Unchanged: true},
			"majority: 2 of 3 replicas answered in time, missing [0000000000000004 0000000000000005]: nothing was changed", 0, true, false},
		{Error{Code: ErrNoLease, Level: All, Need: 3, Got: 2, Missing: missing},
			"all: this node holds no lease; 2 of 3 replicas answered in time, missing [0000000000000004 0000000000000005]: outcome unknown", ErrOutcomeUnknown, true, true},
		{Error{Code: ErrNoLease, Level: All, Need: 3, Got: 2, Missing: missing, Unchanged: true},
			"all: this node holds no lease; 2 of 3 replicas answered in time, missing [0000000000000004 0000000000000005]: nothing was changed", ErrOutcomeUnknown, true, false},
		{Error{Code: ErrTooFewMembers, Level: All, Need: 3, Got: 2}, "all needs 3 voting members, the view has 2", 0, false, false},
		{Error{Code: ErrFenced, Fence: Fence{Group: "g", Term: 5}, Higher: 7}, `fenced: group "g" is at term 7, above 5`, 0, false, false},
		{Error{Code: ErrLimit, Limit: "Keys", Max: 8, Got: 9}, "Keys limit 8 reached (9)", 0, false, false},
		{Error{Code: ErrKind, Key: "k", HaveKind: 1, WantKind: 2}, `key "k" holds a value of kind GCounter, not PNCounter`, 0, false, false},
		{Error{Code: ErrStale, Key: "k", Entry: "e", Stamp: stamp, Node: 3},
			`a newer stamp stands: key "k", entry "e": at node 0000000000000003, time 117964800000000003 of writer 0000000000000006, number 7`, 0, false, false},
		{Error{Code: ErrAhead, Key: "k", Stamp: stamp, Wall: wall, Node: 3, Unchanged: true},
			`stamp is too far ahead of the clocks: key "k": stamp of 2027-01-15T08:00:00.000Z, node 0000000000000003 has 2027-01-15T07:58:59.999Z: nothing was changed`, 0, false, false},
		{Error{Code: ErrAhead, Key: "k", Stamp: stamp, Wall: wall, Node: 3},
			`stamp is too far ahead of the clocks: key "k": stamp of 2027-01-15T08:00:00.000Z, node 0000000000000003 has 2027-01-15T07:58:59.999Z: outcome unknown`, ErrOutcomeUnknown, false, true},
		{Error{Code: ErrMixed, Key: "keep/k", OtherKey: "m"},
			`durable keys: an update of key "keep/k", which is durable, and of "m", which is not: make two of it; nothing was changed`, ErrDurable, false, false},
		{Error{Code: ErrDurable, Key: "keep/k", Node: 3, Cause: disk},
			`durable keys: key "keep/k" cannot be stored at node 0000000000000003, nothing was changed: no space left`, 0, false, false},
	} {
		e := &c.err
		if got := e.Error(); got != "replicator: "+c.text {
			t.Errorf("%s\nwant: replicator: %s", got, c.text)
		}
		wrapped := fmt.Errorf("wrapped: %w", e)
		for code := Code(1); int(code) < len(codeTexts); code++ {
			if got := errors.Is(wrapped, code); got != (code == e.Code || code == c.also) {
				t.Errorf("%v: matches %v: %v", e, code, got)
			}
		}
		if e.Retryable() != c.retryable || Retryable(wrapped) != c.retryable || e.OutcomeUnknown() != c.stays || OutcomeUnknown(wrapped) != c.stays {
			t.Errorf("%v: retryable %v, outcome unknown %v", e, e.Retryable(), e.OutcomeUnknown())
		}
		if errors.Is(wrapped, disk) != (e.Cause != nil) {
			t.Errorf("%v: cause %v", e, e.Cause)
		}
	}
}

// TestCodesHaveTexts: each code has a text of its own, and a wrapped code needs no Error.
func TestCodesHaveTexts(t *testing.T) {
	var texts []string
	for code := ErrOutcomeUnknown; code <= ErrClosed; code++ {
		if text := code.Error(); slices.Contains(texts, text) || text == Code(0).Error() {
			t.Errorf("code %d: %q", code, text)
		}
		texts = append(texts, code.Error())
	}
	if text := (ErrClosed + 1).Error(); text != Code(0).Error() {
		t.Errorf("a code beyond the last: %q", text)
	}
	if err := fmt.Errorf("%w: key %q has changed", ErrContended, "k"); !Retryable(err) || OutcomeUnknown(err) {
		t.Errorf("%v: retryable %v, outcome unknown %v", err, Retryable(err), OutcomeUnknown(err))
	}
	if err := fmt.Errorf("%w: %w", ErrOutcomeUnknown, ErrDurable); Retryable(err) || !OutcomeUnknown(err) {
		t.Errorf("%v: retryable %v, outcome unknown %v", err, Retryable(err), OutcomeUnknown(err))
	}
}
