package sharding

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// This file returns the growth of idle windows to the home's budget: the shell of
// flow.Account's Idle. Every 20 s a home looks for accounts that have received no request
// since the last look, and sends shrink requests for their windows. The reply, a shrunk
// frame, is sent behind the requests to the shard. If either frame is lost, the next look
// repeats the request.

// askIdle sends shrink requests to the senders whose windows are idle.
func (a *accounts) askIdle() {
	for _, s := range a.all() {
		s.askIdle()
	}
}

func (s *sender) askIdle() {
	s.sending.Lock()
	defer s.sending.Unlock()
	for _, frame := range s.idle() {
		s.of.send(s.node, frame)
	}
}

// idle returns the encoded shrink requests to the sender.
func (s *sender) idle() (asks [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.pages {
		page := s.pages[i].Load()
		for j := 0; page != nil && j < pageShards; j++ {
			a := page[j].Load()
			if a == nil {
				continue
			}
			if number, ask := a.Idle(); ask {
				asks = append(asks, frames.AppendShrink(nil, s.of.typ, a.shard, a.token, number))
			}
		}
	}
	return asks
}

// shrunk handles a sender's reply to a shrink request.
func (s *sender) shrunk(shard ShardID, token Token, r flow.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.at(shard)
	if a == nil || a.token != token {
		return
	}
	a.Accept(&a.run) // the run arrived before the reply
	s.of.budgets.mu.Lock()
	a.Shrunk(r, &s.of.budgets.windows)
	s.of.budgets.mu.Unlock()
	s.list(a)
}

// shrink lowers the window of a shard at the request of its home.
func (r *router) shrink(inc *incarnation, from gossip.NodeID, m frames.Marker, asked uint64) {
	rt := &r.routes[m.Shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	report, ok := rt.core.Shrink(from, m.Token, asked)
	switch {
	case !ok:
	case from == inc.self:
		inc.accounts.sender(from).shrunk(m.Shard, m.Token, report)
		inc.accounts.wake()
	default:
		_ = inc.send(from, frames.AppendShrunk(nil, r.name, m.Shard, m.Token, report))
	}
}

func (s *service) handleShrink(from gossip.NodeID, frame []byte) error {
	m, asked, err := frames.ParseShrink(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.Type, m.Shard)
	if inc != nil {
		p.base().shrink(inc, from, m, asked)
	}
	return err
}

func (s *service) handleShrunk(from gossip.NodeID, frame []byte) error {
	m, report, err := frames.ParseReport(frame)
	if err != nil {
		return err
	}
	_, inc, err := findShard(s, m.Type, m.Shard)
	if inc != nil && inc.accounts != nil {
		sender := inc.accounts.sender(from)
		sender.shrunk(m.Shard, m.Token, report)
		sender.transmit()
	}
	return err
}
