package sharding

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/delivery/frames"
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
	self   gossip.NodeID
	signal chan struct{}

	// budgets are those of the node.
	budgets *flowBudgets
	// pool is charged for the requests of the type that are parked for slow entities. Guarded by
	// the mutex of budgets.
	pool flow.Pool
	// send sends a frame to a node; it does not block.
	send func(to gossip.NodeID, frame []byte)

	mu      sync.Mutex
	senders map[gossip.NodeID]*sender
}

// flowBudgets bound what this node, as a home, grants and parks beyond first windows, for
// all types.
type flowBudgets struct {
	mu sync.Mutex
	// windows are beyond the first 64 KiB of each sender and shard. parked is charged for
	// requests that are parked for slow entities, beyond the shares of their types.
	windows, parked flow.Budget
	// pools are those of all types.
	pools []*flow.Pool
}

// windowBytesMost and parkedBytesMost are the limits of a node's flowBudgets. Each type may
// park parkedBytesShare more, independently of other types.
const (
	windowBytesMost  = 256 << 20
	parkedBytesMost  = 64 << 20
	parkedBytesShare = 1 << 20
)

func (b *flowBudgets) init() { b.windows.Most, b.parked.Most = windowBytesMost, parkedBytesMost }

// addPool adds the pool of a type.
func (b *flowBudgets) addPool(p *flow.Pool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Share, p.Rest = parkedBytesShare, &b.parked
	b.pools = append(b.pools, p)
}

// used returns the bytes that are in use.
func (b *flowBudgets) used() (parked, windows uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pools {
		parked += p.Used
	}
	return parked, b.windows.Used
}

func newAccounts(typ string, shards uint32, self gossip.NodeID, budgets *flowBudgets, send func(to gossip.NodeID, frame []byte)) *accounts {
	a := &accounts{
		typ: typ, shards: shards, self: self, budgets: budgets, send: send,
		signal: make(chan struct{}, 1), senders: map[gossip.NodeID]*sender{},
	}
	budgets.addPool(&a.pool)
	return a
}

// sender holds the accounts of one node. Its mutex is taken with the mutex of a shard, or
// of a route, held; with it held, only that of the budgets is taken.
type sender struct {
	of   *accounts
	node gossip.NodeID

	// sending orders what is sent: a stop must leave before the grant behind it.
	sending sync.Mutex

	// pages hold the accounts by shard. They are read without the mutex.
	pages []atomic.Pointer[accountPage]

	mu sync.Mutex
	// due are the accounts with a grant to send, each once. urgent is set if one of the grants
	// must not wait for those of other accounts.
	due    []*account
	urgent bool
}

// accountPage holds the accounts of pageShards shards, nil where there is none: a sender to
// few shards costs little, and a look-up two loads.
type accountPage [pageShards]atomic.Pointer[account]

const pageShards = 64

// account is that of one sender and shard, under one token. It is the entity.Ledger of
// the requests that it accepted.
//
// The fields that every request reads stand first, so that they share a cache line.
type account struct {
	token Token
	// run is what came since it was last taken in. It belongs to the goroutine that brings the
	// sender's requests to this shard: the reader of the connection, or, for requests of this
	// node itself, the one that holds the mutex of the route.
	run   flow.Run
	s     *sender
	shard ShardID
	// listed: it is in s.due. Guarded by the mutex of s, as is the Account.
	listed bool
	flow.Account
}

func (a *accounts) sender(node gossip.NodeID) *sender {
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
// flushes the account if enough says that its run is worth that.
func (s *sender) accept(shard ShardID, token Token, number uint64, bytes int) (a *account, enough bool) {
	if a = s.at(shard); a == nil || a.token != token {
		s.mu.Lock()
		a = s.account(shard, token, number)
		s.mu.Unlock()
	}
	return a, a.run.Add(number, bytes)
}

// flush takes the runs of accounts in, lets go of these, and sends what is due if some of it
// is urgent. Grants of this node to itself are left to run to send: the caller holds the mutex
// of a route.
func (s *sender) flush(touched []*account) {
	s.mu.Lock()
	s.takeRuns(touched)
	urgent := s.urgent
	s.mu.Unlock()
	switch {
	case !urgent:
	case s.node == s.of.self:
		s.of.wake()
	default:
		s.transmit()
	}
}

// takeRuns is called with the mutex.
func (s *sender) takeRuns(touched []*account) {
	for i, a := range touched {
		touched[i] = nil
		if a.Accept(&a.run) {
			s.of.budgets.mu.Lock()
			a.Grow(&s.of.budgets.windows)
			s.of.budgets.mu.Unlock()
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

// list notes a grant that is due, and reports whether it is urgent; called with the mutex.
func (s *sender) list(a *account) bool {
	if !a.listed && !a.Due() {
		return false
	}
	if !a.listed {
		a.listed = true
		s.due = append(s.due, a)
	}
	urgent := a.Urgent()
	s.urgent = s.urgent || urgent
	return urgent
}

// Park reports whether an accepted request may wait for its mailbox. It is the one that the
// run has last.
func (a *account) Park(id string, class flow.Class, bytes int) (pooled, may bool) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	b := a.s.of.budgets
	b.mu.Lock()
	defer b.mu.Unlock()
	pooled, may = a.Account.Park(id, class, a.run.Last(), bytes, a.pool())
	a.run.Wait()
	a.s.list(a)
	return pooled, may
}

// pool returns what parked requests of the sender are charged to: nil for this node itself,
// whose buffers flow as far as the window goes.
func (a *account) pool() *flow.Pool {
	if a.s.node == a.s.of.self {
		return nil
	}
	return &a.s.of.pool
}

// Unpark notes that it has entered its mailbox.
func (a *account) Unpark(id string, class flow.Class, bytes int, pooled bool) {
	a.s.mu.Lock()
	b := a.s.of.budgets
	b.mu.Lock()
	a.Account.Unpark(id, class, bytes, pooled, &a.s.of.pool)
	b.mu.Unlock()
	urgent := a.s.list(a)
	a.s.mu.Unlock()
	if urgent {
		a.s.of.wake()
	}
}

// reconcile takes the report of a blocked sender.
func (s *sender) reconcile(shard ShardID, token Token, r flow.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(shard, token, r.Sent+1)
	a.Accept(&a.run) // it came before
	s.of.budgets.mu.Lock()
	a.Reconcile(r, &s.of.budgets.windows)
	s.of.budgets.mu.Unlock()
	s.list(a)
}

// transmit sends what is due: for each account what its sender has to stop for, and then
// its grant.
func (s *sender) transmit() {
	s.sending.Lock()
	defer s.sending.Unlock()
	stops, grants := s.take()
	for _, frame := range stops {
		s.of.send(s.node, frame)
	}
	if grants != nil {
		s.of.send(s.node, grants)
	}
}

// take returns what is due, encoded.
func (s *sender) take() (stops [][]byte, grants []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 {
		return nil, nil
	}
	grants = frames.AppendGrantHead(nil, s.of.typ)
	for i, a := range s.due {
		a.listed, s.due[i] = false, nil
		a.Notices(func(id string, gate flow.Class) {
			stops = append(stops, frames.AppendStop(nil, s.of.typ, a.shard, a.token, id, gate))
		})
		grants = frames.AppendGrant(grants, &frames.Grant{Shard: a.shard, Token: a.token, Grant: a.Grant()})
	}
	s.due, s.urgent = s.due[:0], false
	return stops, grants
}

// answerStopped tells a sender that asks whether it has to stop for an entity of a shard
// that runs here under token.
func (s *sender) answerStopped(shard ShardID, token Token, id string) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	a := s.at(shard)
	gate := flow.Open
	if a != nil && a.token == token {
		gate = a.GateOf(id)
	}
	s.mu.Unlock()
	if gate != flow.Control { // at flow.Control the sender's stop holds
		s.of.send(s.node, frames.AppendStop(nil, s.of.typ, shard, token, id, gate))
	}
}

// close returns what an account had of the budget.
func (a *accounts) close(of *account) {
	a.budgets.mu.Lock()
	defer a.budgets.mu.Unlock()
	of.Close(&a.budgets.windows)
}

// wake lets run look for grants that are due.
func (a *accounts) wake() {
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// run sends what is due when no reader does, until ctx ends.
func (a *accounts) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.signal:
		}
		for _, s := range a.all() {
			s.transmit()
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
func (a *accounts) forget(node gossip.NodeID) {
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
