package delivery

import (
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// This file returns the growth of idle windows to the home's budget: the shell of
// flow.Account's Idle. Every 20 s a home looks for accounts that have received no request
// since the last look, and sends shrink requests for their windows. The reply, a shrunk
// frame, is sent behind the requests to the shard. If either frame is lost, the next look
// repeats the request.

// AskIdle sends shrink requests to the senders whose windows are idle.
func (a *Accounts) AskIdle() {
	for _, s := range a.allSenders() {
		s.askIdle()
	}
}

func (s *PeerAccounts) askIdle() {
	s.sending.Lock()
	defer s.sending.Unlock()
	for _, frame := range s.idleRequests() {
		s.of.send(s.Node, frame)
	}
}

// idleRequests returns the encoded shrink requests to the sender.
func (s *PeerAccounts) idleRequests() (asks [][]byte) {
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

// OnShrunk handles a sender's reply to a shrink request.
func (s *PeerAccounts) OnShrunk(shard strategy.ShardID, token protocol.Token, r flow.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accountOf(shard)
	if a == nil || a.token != token {
		return
	}
	a.Accept(&a.run) // the run arrived before the reply
	s.of.budgets.mu.Lock()
	a.Shrunk(r, &s.of.budgets.windows)
	s.of.budgets.mu.Unlock()
	s.listDue(a)
}
