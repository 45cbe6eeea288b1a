package datapath

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// accounts are those of the senders to the shards here: internal/delivery/accounts.go in production.
type accounts struct {
	env  Env
	self gossip.NodeID
	// answer sends a frame to a sender, which may be this process.
	answer  func(to gossip.NodeID, f *Frame)
	senders map[gossip.NodeID]*sender
	windows flow.Budget
	pool    flow.Pool
}

// sender has the accounts of one process.
type sender struct {
	of     *accounts
	node   gossip.NodeID
	shards map[protocol.ShardID]*account
	// due are the accounts with a grant to send. urgent: one of the grants must not wait for
	// those of other accounts.
	due    []*account
	urgent bool
}

// account counts the messages of one sender to one shard, under one token.
type account struct {
	flow.Account
	s      *sender
	shard  protocol.ShardID
	token  protocol.Token
	run    flow.Run
	listed bool
}

func newAccounts(cfg Config, env Env, answer func(gossip.NodeID, *Frame)) accounts {
	return accounts{
		env: env, self: cfg.Self, answer: answer, senders: map[gossip.NodeID]*sender{},
		windows: flow.Budget{Most: cfg.Windows}, pool: flow.Pool{Share: cfg.Parked},
	}
}

func (a *accounts) senderOf(node gossip.NodeID) *sender {
	s := a.senders[node]
	if s == nil {
		s = &sender{of: a, node: node, shards: map[protocol.ShardID]*account{}}
		a.senders[node] = s
	}
	return s
}

// forgetSender drops the accounts of a node.
func (a *accounts) forgetSender(node gossip.NodeID) {
	if s := a.senders[node]; s != nil {
		s.retainAccounts(func(*account) bool { return false })
		delete(a.senders, node)
	}
}

// tidyUp drops the accounts of shards that no longer run here, and asks senders with idle windows
// to return their growth.
func (a *accounts) tidyUp() {
	for _, node := range slices.Sorted(maps.Keys(a.senders)) {
		s := a.senders[node]
		s.retainAccounts(func(of *account) bool { return isHosted(a.env, of.shard, of.token) })
		for _, shard := range slices.Sorted(maps.Keys(s.shards)) {
			of := s.shards[shard]
			if number, ask := of.Idle(); ask {
				a.answer(node, &Frame{Op: Shrink, Shard: shard, Token: of.token, Number: number})
			}
		}
	}
}

func (s *sender) retainAccounts(stays func(*account) bool) {
	for _, shard := range slices.Sorted(maps.Keys(s.shards)) {
		if a := s.shards[shard]; !stays(a) {
			a.Close(&s.of.windows)
			delete(s.shards, shard)
		}
	}
}

// accountOf returns the account of a shard, a new one if the token is new.
func (s *sender) accountOf(shard protocol.ShardID, token protocol.Token, next uint64) *account {
	a := s.shards[shard]
	if a == nil || a.token != token {
		if a != nil {
			a.Close(&s.of.windows)
		}
		a = &account{Account: flow.NewAccount(next), s: s, shard: shard, token: token}
		s.shards[shard] = a
	}
	return a
}

// takeRun accounts for the messages that came since the last takeRun.
func (a *account) takeRun() {
	if a.Accept(&a.run) {
		a.Grow(&a.s.of.windows)
	}
	a.listDue()
}

// listDue notes a grant that is due.
func (a *account) listDue() {
	if !a.listed && !a.Due() {
		return
	}
	if !a.listed {
		a.listed = true
		a.s.due = append(a.s.due, a)
	}
	a.s.urgent = a.s.urgent || a.Urgent()
}

// reconcileReport takes the report of a blocked sender, and grants more if it can.
func (s *sender) reconcileReport(f *Frame) {
	a := s.accountOf(f.Shard, f.Token, f.Report.Sent+1)
	a.Accept(&a.run) // it came before the report
	a.Reconcile(f.Report, &s.of.windows)
	a.listDue()
	s.sendDue()
}

// onShrunk takes a sender's answer to a Shrink frame.
func (s *sender) onShrunk(f *Frame) {
	a := s.shards[f.Shard]
	if a == nil || a.token != f.Token {
		return
	}
	a.Accept(&a.run) // it came before the answer
	if a.Shrunk(f.Report, &s.of.windows) {
		s.of.env.Count(WindowShrunk)
	}
	a.listDue()
	s.sendDue()
}

func (s *sender) gateOf(f *Frame) flow.Class {
	if a := s.shards[f.Shard]; a != nil && a.token == f.Token {
		return a.GateOf(f.ID)
	}
	return flow.Open
}

// sendUrgent sends the grants that are due, if one of them is urgent.
func (s *sender) sendUrgent() {
	if s.urgent {
		s.sendDue()
	}
}

// sendDue sends the gates and grants that are due.
func (s *sender) sendDue() {
	due := s.due
	s.due, s.urgent = nil, false
	grants := make([]ShardGrant, 0, len(due))
	for _, a := range due {
		a.listed = false
		a.Notices(func(id string, gate flow.Class) {
			s.of.answer(s.node, &Frame{Op: Stop, Shard: a.shard, Token: a.token, ID: id, Gate: gate})
		})
		grants = append(grants, ShardGrant{a.shard, a.token, a.Grant()})
	}
	if len(grants) > 0 {
		s.of.answer(s.node, &Frame{Op: Grant, Grants: grants})
	}
}

// parkMessage notes that a message waits for its mailbox, and reports whether it may.
func (a *account) parkMessage(m *Message) (pooled, may bool) {
	pooled, may = a.Park(entityID(m.Entity), m.Class, a.run.Last(), m.Bytes, a.pool())
	a.run.Wait()
	a.listDue()
	return pooled, may
}

// unparkMessage notes that a message waits no longer.
func (a *account) unparkMessage(m *Message, pooled bool) {
	a.Unpark(entityID(m.Entity), m.Class, m.Bytes, pooled, a.pool())
	if a.listDue(); a.s.urgent {
		a.s.of.env.Later(a.s.sendUrgent)
	}
}

// pool returns the pool for parked messages of the sender, nil for this process.
func (a *account) pool() *flow.Pool {
	if a.s.node == a.s.of.self {
		return nil
	}
	return &a.s.of.pool
}
