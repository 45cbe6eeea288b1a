package sharding

import (
	"context"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/failure"
)

// ErrNoShard reports a shard number that the type does not have.
var ErrNoShard error = failure.NoShard

// TraceEvent is one event in a shard's history.
type TraceEvent struct {
	// At is the wall-clock time of that node, for display.
	At time.Time `json:"at"`
	// On is the node that recorded the event.
	On gossip.NodeID `json:"on"`
	// Term is the term that the node followed, or held, at that time.
	Term gossip.Epoch `json:"term"`
	// By is "region" or "coordinator".
	By string `json:"by"`
	// Kind names the event in a word or two. Detail adds what this event alone has.
	Kind  string  `json:"kind"`
	Shard ShardID `json:"shard"`
	// Node is the node that the event concerns, for example the shard's new home.
	Node   gossip.NodeID `json:"node,omitzero"`
	Token  Token         `json:"token"`
	Detail string        `json:"detail,omitempty"`
}

// History holds the recorded events of a shard, from all nodes.
type History struct {
	Type  string  `json:"type"`
	Shard ShardID `json:"shard"`
	// Why is a sentence about where the shard runs and what brought it there, as far as the events
	// show.
	Why string `json:"why"`
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
	if n := p.place.Shards; uint32(shard) >= n {
		return h, fmt.Errorf("%w: %s has %d shards, not %v", ErrNoShard, typ, n, shard)
	}
	survey, err := s.drivers.Survey(ctx, &protocol.Query{Head: protocol.Head{Type: typ}, Shard: shard, HasShard: true})
	if err != nil {
		return h, err
	}
	h.Failed = missing(survey, p)
	events := survey.History(shard)
	h.Why = survey.Why(events)
	for _, e := range events {
		h.Events = append(h.Events, TraceEvent{
			At: e.At, On: e.On, Term: e.Term, By: e.By, Kind: e.Kind,
			Shard: e.Shard, Node: e.Node, Token: Token(e.Token), Detail: e.Detail,
		})
	}
	return h, nil
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
	shard := p.Extract.ShardOf(id)
	if shard == endpoint.NoShard {
		return 0, endpoint.NoShardFor(id)
	}
	return shard, nil
}
