package sharding

import (
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/core/flow"
)

// This file lets windows that are idle give back what they have grown by: the shell of
// flow.Account's Idle. A home looks every 20 s for accounts to which nothing came since, and
// asks their senders to shrink their windows; the answer travels behind the requests to the
// shard. A question or an answer that is lost is repeated with the next look.

// askIdle asks the senders whose windows are idle.
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

// idle returns the questions to the sender, encoded.
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
				asks = append(asks, appendShrink(nil, s.of.typ, a.shard, a.token, number))
			}
		}
	}
	return asks
}

// shrunk takes the answer of a sender.
func (s *sender) shrunk(shard ShardID, token Token, r flow.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.at(shard)
	if a == nil || a.token != token {
		return
	}
	a.Accept(&a.run) // it came before
	s.of.budgets.mu.Lock()
	a.Shrunk(r, &s.of.budgets.windows)
	s.of.budgets.mu.Unlock()
	s.list(a)
}

// shrink lowers a window for its home.
func (r *router) shrink(inc *incarnation, from view.NodeID, m marker, asked uint64) {
	rt := &r.routes[m.shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.home != from || rt.token != m.token || !rt.open || rt.suspended || rt.settle.waiting() {
		return
	}
	report, ok := rt.window.Shrink(asked)
	switch {
	case !ok:
	case from == inc.self:
		inc.accounts.sender(from).shrunk(m.shard, m.token, report)
		inc.accounts.wake()
	default:
		_ = inc.send(from, appendShrunk(nil, r.name, m.shard, m.token, report))
	}
}

func (s *Sharding) handleShrink(from view.NodeID, frame []byte) error {
	m, asked, err := parseShrink(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.typ, m.shard)
	if inc != nil {
		p.base().shrink(inc, from, m, asked)
	}
	return err
}

func (s *Sharding) handleShrunk(from view.NodeID, frame []byte) error {
	m, report, err := parseReport(frame)
	if err != nil {
		return err
	}
	_, inc, err := findShard(s, m.typ, m.shard)
	if inc != nil && inc.accounts != nil {
		sender := inc.accounts.sender(from)
		sender.shrunk(m.shard, m.token, report)
		sender.transmit()
	}
	return err
}
