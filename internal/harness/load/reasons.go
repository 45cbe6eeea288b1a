package load

import (
	"errors"
	"strconv"

	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding"
)

// ReasonOf names an error for the counts of failed attempts.
func ReasonOf(err error) string {
	if name, ok := dataReason(err); ok {
		return name
	}
	for _, r := range []struct {
		err  error
		name string
	}{
		{sharding.ErrNodeLost, "node lost"}, {sharding.ErrMoved, "moved"}, {sharding.ErrNoHome, "no home"},
		{sharding.ErrPaused, "paused"}, {sharding.ErrNotReady, "not ready"}, {sharding.ErrAbandoned, "abandoned"},
		{sharding.ErrMailboxFull, "mailbox full"}, {sharding.ErrBufferFull, "buffer full"},
		{sharding.ErrNodeStopping, "node stopping"}, {sharding.ErrUnknownType, "unknown type"}, {sharding.ErrNotKept, "not kept"},
	} {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return strconv.Quote(err.Error())
}

// dataReason names an error of replicated data for the counts of failed attempts.
func dataReason(err error) (string, bool) {
	for _, r := range []struct {
		err  error
		name string
	}{
		{replicator.ErrDurable, "data: disk"}, {replicator.ErrNoLease, "data: no lease"},
		{replicator.ErrTooFewMembers, "data: too few members"}, {replicator.ErrStamp, "data: stamp"},
		{replicator.ErrContended, "data: contended"}, {replicator.ErrOutcomeUnknown, "data: no majority"},
		{replicator.ErrClosed, "data: closed"},
	} {
		if errors.Is(err, r.err) {
			return r.name, true
		}
	}
	return "", false
}
