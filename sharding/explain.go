package sharding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// ErrNoShard reports a shard number that the type does not have.
var ErrNoShard = errors.New("sharding: no such shard")

// History holds the recorded events of a shard, from all nodes.
type History struct {
	Type  string  `json:"type"`
	Shard ShardID `json:"shard"`
	// Events are those of all nodes that answered, in one order: see Registry.Explain.
	Events []TraceEvent `json:"events"`
	// Failed are the members that did not answer in time.
	Failed []NodeFailure `json:"failed,omitempty"`
}

// Explain queries all members why a shard is where it is. Each member returns its newest
// events about the shard, and about all shards, up to 1,024.
//
// Events are merged by term, then token, then time. Terms and tokens are allocated in the
// order of events, so differing clocks decide only between events of one token. The events
// of one node stay in the order in which it recorded them. For time-outs and errors see
// Cluster.
func (r *Registry) Explain(ctx context.Context, typ string, shard ShardID) (_ History, err error) {
	defer setGroup(&err)
	h := History{Type: typ, Shard: shard}
	s, p, err := r.serving(typ)
	if err != nil {
		return h, err
	}
	if n := p.describe().shards; uint32(shard) >= n {
		return h, fmt.Errorf("%w: %s has %d shards, not %v", ErrNoShard, typ, n, shard)
	}
	v, answers, failed, err := s.survey(ctx, p, &protocol.Query{Head: protocol.Head{Type: typ}, Shard: shard, HasShard: true})
	if err != nil {
		return h, err
	}
	h.Failed = failed
	var lists [][]TraceEvent
	for i := range v.Members {
		id := v.Members[i].ID
		if a := answers[id]; a != nil {
			lists = append(lists, traceEvents(id, shard, a.Events))
		}
	}
	h.Events = merge(lists)
	return h, nil
}

func traceEvents(on gossip.NodeID, shard ShardID, events []protocol.Event) []TraceEvent {
	var out []TraceEvent
	for _, e := range events {
		by := "region"
		if e.Coordinator {
			by = "coordinator"
		}
		out = append(out, TraceEvent{
			At: time.Unix(0, e.Unix), On: on, Term: e.Term, By: by, Kind: e.Kind, Shard: shard,
			Node: e.Node, Token: e.Token, Detail: e.Detail,
		})
	}
	return out
}

// merge puts the nodes' lists into one order. An event counts as no earlier, by
// term, token and time, than what its node saw before it: a shard that is stopped
// in term 3 has a token of term 2, and its end stands in term 3 all the same.
func merge(lists [][]TraceEvent) []TraceEvent {
	type place struct {
		term  gossip.Epoch
		token Token
		at    time.Time
		event TraceEvent
	}
	compare := func(a, b place) int {
		return cmp.Or(cmp.Compare(a.term, b.term), a.token.Compare(b.token))
	}
	var all []place
	for _, list := range lists {
		var last place
		for _, e := range list {
			p := place{term: e.Term, token: e.Token, at: e.At, event: e}
			if compare(p, last) < 0 {
				p.term, p.token = last.term, last.token
			}
			if compare(p, last) == 0 && p.at.Before(last.at) {
				p.at = last.at
			}
			all, last = append(all, p), p
		}
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Or(compare(a, b), a.at.Compare(b.at)) })
	var out []TraceEvent
	for _, p := range all {
		out = append(out, p.event)
	}
	return out
}

// ShardOf returns the number of the shard to which an entity id belongs. It fails with
// ErrUnknownType, and with ErrNoShard if the type's ShardOf returns no valid shard.
func (r *Registry) ShardOf(typ, id string) (_ ShardID, err error) {
	defer setGroup(&err)
	r.mu.Lock()
	p := r.types[typ]
	r.mu.Unlock()
	if p == nil {
		return 0, unknownHere(typ)
	}
	shard := p.describe().extract.of(id)
	if shard == noShard {
		return 0, noShardFor(id)
	}
	return shard, nil
}
