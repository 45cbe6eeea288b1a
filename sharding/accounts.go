package sharding

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/flow"
)

// accounts are what this node, as a home, knows of the senders to the shards of one type:
// the shell of package flow's Account. A request is accepted before it is delivered, and
// parked when its mailbox is full; both may make a grant due. The reader of a connection
// adds what it brings to runs, without a lock, and sends what is due to its peer when its
// block of requests ends; what a handler's progress makes due is sent by run, since
// handlers' goroutines hold the mutex of a shard.
type accounts struct {
	typ    string
	shards uint32
	signal chan struct{}

	mu      sync.Mutex
	budget  flow.Budget
	senders map[view.NodeID]*sender
}

// windowBytesMost bounds the windows of all senders to the shards of a type beyond the
// first 64 KiB of each.
const windowBytesMost = 256 << 20

func newAccounts(typ string, shards uint32) *accounts {
	return &accounts{
		typ: typ, shards: shards, signal: make(chan struct{}, 1), senders: map[view.NodeID]*sender{},
		budget: flow.Budget{Most: windowBytesMost},
	}
}

// sender holds the accounts of one node. Its mutex is taken with the mutex of a shard, or
// of a route, held; with it held, only that of accounts is taken.
type sender struct {
	of   *accounts
	node view.NodeID

	// pages hold the accounts by shard. They are read without the mutex.
	pages []atomic.Pointer[accountPage]

	mu sync.Mutex
	// due are the accounts with a grant to send, each once.
	due []*account
}

// accountPage holds the accounts of pageShards shards, nil where there is none: a sender to
// few shards costs little, and a look-up two loads.
type accountPage [pageShards]atomic.Pointer[account]

const pageShards = 64

// account is that of one sender and shard, under one token. It is the entity.Ledger of
// the requests that it accepted.
type account struct {
	flow.Account
	s     *sender
	shard ShardID
	token Token
	// run is what came since the last flush. It belongs to the goroutine that brings the
	// sender's requests to this shard: the reader of the connection, or, for requests of this
	// node itself, the one that holds the mutex of the route.
	run flow.Run
	// listed: it is in s.due. Guarded by the mutex of s, as is the Account.
	listed bool
}

func (a *accounts) sender(node view.NodeID) *sender {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.senders[node]
	if s == nil {
		s = &sender{of: a, node: node, pages: make([]atomic.Pointer[accountPage], (a.shards+pageShards-1)/pageShards)}
		a.senders[node] = s
	}
	return s
}

// at returns the account of a shard, nil if there is none.
func (s *sender) at(shard ShardID) *account {
	page := s.pages[shard/pageShards].Load()
	if page == nil {
		return nil
	}
	return page[shard%pageShards].Load()
}

// accept notes a request that came for a shard which runs here under token. The caller
// flushes the account if first says that it has to.
func (s *sender) accept(shard ShardID, token Token, number uint64, bytes int) (a *account, first bool) {
	if a = s.at(shard); a == nil || a.token != token {
		s.mu.Lock()
		a = s.account(shard, token, number)
		s.mu.Unlock()
	}
	first = a.run.Empty()
	a.run.Add(number, bytes)
	return a, first
}

// flush takes the runs of accounts in, lets go of these, and returns the grants that are
// due, encoded; nil if none are.
func (s *sender) flush(touched []*account) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeRuns(touched)
	return s.encodeDue()
}

// note is flush for requests of this node itself: run sends the grants.
func (s *sender) note(touched []*account) {
	s.mu.Lock()
	s.takeRuns(touched)
	due := len(s.due) > 0
	s.mu.Unlock()
	if due {
		s.of.wake()
	}
}

// takeRuns is called with the mutex.
func (s *sender) takeRuns(touched []*account) {
	for i, a := range touched {
		touched[i] = nil
		if a.Accept(&a.run) {
			s.of.mu.Lock()
			a.Grow(&s.of.budget)
			s.of.mu.Unlock()
		}
		s.list(a)
	}
}

// account returns the account of a shard, a new one if its token is new; called with the
// mutex.
func (s *sender) account(shard ShardID, token Token, next uint64) *account {
	at := &s.pages[shard/pageShards]
	page := at.Load()
	if page == nil {
		page = &accountPage{}
		at.Store(page)
	}
	a := page[shard%pageShards].Load()
	if a == nil || a.token != token {
		if a != nil {
			s.of.close(a)
		}
		a = &account{Account: flow.NewAccount(next), s: s, shard: shard, token: token}
		page[shard%pageShards].Store(a)
	}
	return a
}

// list notes a grant that is due; called with the mutex.
func (s *sender) list(a *account) bool {
	if a.listed || !a.Due() {
		return false
	}
	a.listed = true
	s.due = append(s.due, a)
	return true
}

// Park reports whether an accepted request may wait for its mailbox.
func (a *account) Park(bytes int) bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.Account.Park(bytes)
}

// Unpark notes that it has entered its mailbox.
func (a *account) Unpark(bytes int) {
	a.s.mu.Lock()
	a.Account.Unpark(bytes)
	due := a.s.list(a)
	a.s.mu.Unlock()
	if due {
		a.s.of.wake()
	}
}

// reconcile takes the report of a blocked sender.
func (s *sender) reconcile(shard ShardID, token Token, r flow.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(shard, token, r.Sent+1)
	a.Accept(&a.run) // it came before
	s.of.mu.Lock()
	a.Reconcile(r, &s.of.budget)
	s.of.mu.Unlock()
	s.list(a)
}

// take returns the grants that are due, encoded; nil if none are.
func (s *sender) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.encodeDue()
}

// encodeDue is called with the mutex.
func (s *sender) encodeDue() []byte {
	if len(s.due) == 0 {
		return nil
	}
	b := appendGrantHead(nil, s.of.typ)
	for i, a := range s.due {
		a.listed, s.due[i] = false, nil
		b = appendGrant(b, &granted{a.shard, a.token, a.Grant()})
	}
	s.due = s.due[:0]
	return b
}

// close returns what an account had of the budget.
func (a *accounts) close(of *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of.Close(&a.budget)
}

// wake lets run look for grants that are due.
func (a *accounts) wake() {
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// run sends what is due when nobody else does, until ctx ends.
func (a *accounts) run(ctx context.Context, send func(to view.NodeID, grants []byte)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.signal:
		}
		for _, s := range a.all() {
			if grants := s.take(); grants != nil {
				send(s.node, grants)
			}
		}
	}
}

func (a *accounts) all() []*sender {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*sender, 0, len(a.senders))
	for _, s := range a.senders { // order-free: each is looked at on its own
		all = append(all, s)
	}
	return all
}

// forget drops the accounts of a node that has left the view.
func (a *accounts) forget(node view.NodeID) {
	a.mu.Lock()
	s := a.senders[node]
	delete(a.senders, node)
	a.mu.Unlock()
	if s != nil {
		s.retain(func(*account) bool { return false })
	}
}

// sweep drops the accounts of shards that do not run here under their tokens.
func (a *accounts) sweep(hosted func(ShardID) Token) {
	for _, s := range a.all() {
		s.retain(func(a *account) bool { return hosted(a.shard) == a.token })
	}
}

func (s *sender) retain(stays func(*account) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.pages {
		page := s.pages[i].Load()
		for j := 0; page != nil && j < pageShards; j++ {
			if a := page[j].Load(); a != nil && !stays(a) {
				page[j].Store(nil)
				s.of.close(a)
			}
		}
	}
}
