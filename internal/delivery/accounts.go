package delivery

import (
	"context"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Accounts are this node's accounts, as a home, of the senders to the shards of one type: the
// shell of package flow's Account. A request is accepted before it is delivered, and parked if
// its mailbox is full. Both may make a grant due.
//
// The reader of a connection adds its requests to runs, without a lock, and sends the grants
// that are due when its block of requests ends. The goroutines of handlers hold the mutex of a
// shard, so run sends the grants that become due there.
type Accounts struct {
	typ    string
	shards uint32
	self   gossip.NodeID
	wake   signal.Wake

	// budgets are those of the node.
	budgets *Budgets
	// pool is charged for the requests of the type that are parked for slow entities. Guarded by
	// the mutex of budgets.
	pool flow.Pool
	// send sends a frame to a node; it does not block.
	send func(to gossip.NodeID, frame []byte)

	mu      sync.Mutex
	senders map[gossip.NodeID]*PeerAccounts
}

// Budgets bounds the bytes that this node, as a home, grants beyond first windows and parks,
// over all types.
type Budgets struct {
	mu sync.Mutex
	// windows are beyond the first 64 KiB of each sender and shard. parked is charged for
	// requests that are parked for slow entities, beyond the shares of their types.
	windows, parked flow.Budget
	// pools are those of all types.
	pools []*flow.Pool
	// share is the number of bytes that each type may park before it uses up parked.
	share uint64
}

// WindowBytesMost and ParkedBytesMost are the limits of a node's Budgets. Each type may
// park parkedBytesShare more, independently of other types.
const (
	WindowBytesMost  = 256 << 20
	ParkedBytesMost  = 64 << 20
	parkedBytesShare = 1 << 20
)

// NewBudgets returns the budgets of a node.
func NewBudgets() *Budgets {
	b := &Budgets{share: parkedBytesShare}
	b.windows.Most, b.parked.Most = WindowBytesMost, ParkedBytesMost
	return b
}

// SetLimits replaces the limits in bytes: of windows, of all parked requests, and the share of
// each type in these.
func (b *Budgets) SetLimits(windows, parked, share uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.windows.Most, b.parked.Most, b.share = windows, parked, share
	for _, p := range b.pools {
		p.Share = share
	}
}

// addPool adds the pool of a type.
func (b *Budgets) addPool(p *flow.Pool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Share, p.Rest = b.share, &b.parked
	b.pools = append(b.pools, p)
}

// Used returns the bytes that are in use.
func (b *Budgets) Used() (parked, windows uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pools {
		parked += p.Used
	}
	return parked, b.windows.Used
}

func newAccounts(typ string, shards uint32, self gossip.NodeID, budgets *Budgets, send func(to gossip.NodeID, frame []byte)) *Accounts {
	a := &Accounts{
		typ: typ, shards: shards, self: self, budgets: budgets, send: send,
		wake: signal.NewWake(), senders: map[gossip.NodeID]*PeerAccounts{},
	}
	budgets.addPool(&a.pool)
	return a
}

// PeerAccounts holds the accounts of one node. Its mutex is taken with the mutex of a shard, or
// of a route, held; with it held, only that of the budgets is taken.
type PeerAccounts struct {
	of   *Accounts
	Node gossip.NodeID

	// sending orders what is sent: a stop must leave before the grant behind it.
	sending sync.Mutex

	// pages hold the accounts by shard. They are read without the mutex.
	pages []atomic.Pointer[accountPage]

	mu sync.Mutex
	// due are the accounts with a grant to send, each once. urgent is set if one of the grants
	// must not wait for those of other accounts.
	due    []*Account
	urgent bool
}

// accountPage holds the accounts of pageShards shards, nil where there is none: a sender to
// few shards costs little, and a look-up two loads.
type accountPage [pageShards]atomic.Pointer[Account]

const pageShards = 64

// Account is the account of one sender and shard, under one token. It is the
// activation.Ledger of the requests that it accepted.
//
// The fields that every request reads stand first, so that they share a cache line.
type Account struct {
	token protocol.Token
	// run counts the requests since it was last added to the Account. It belongs to the
	// goroutine that delivers the sender's requests to this shard: the reader of the
	// connection, or, for requests of this node itself, the one that holds the mutex of the
	// route.
	run   flow.Run
	s     *PeerAccounts
	shard strategy.ShardID
	// listed: it is in s.due. Guarded by the mutex of s, as is the Account.
	listed bool
	flow.Account
}

// Sender returns the accounts of a node.
func (a *Accounts) Sender(node gossip.NodeID) *PeerAccounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.senders[node]
	if s == nil {
		s = &PeerAccounts{of: a, Node: node, pages: make([]atomic.Pointer[accountPage], (a.shards+pageShards-1)/pageShards)}
		a.senders[node] = s
	}
	return s
}

// accountOf returns the account of a shard, nil if there is none.
func (s *PeerAccounts) accountOf(shard strategy.ShardID) *Account {
	page := s.pages[shard/pageShards].Load()
	if page == nil {
		return nil
	}
	return page[shard%pageShards].Load()
}

// Accept notes a request that came for a shard which runs here under token. The caller
// flushes the account if enough says that its run is worth that.
func (s *PeerAccounts) Accept(shard strategy.ShardID, token protocol.Token, number uint64, bytes int) (a *Account, enough bool) {
	if a = s.accountOf(shard); a == nil || a.token != token {
		s.mu.Lock()
		a = s.openAccount(shard, token, number)
		s.mu.Unlock()
	}
	return a, a.run.Add(number, bytes)
}

// Flush adds the runs of accounts to these, clears touched, and sends the grants that are due
// if one is urgent. It leaves grants to this node itself to run, because the caller holds the
// mutex of a route.
func (s *PeerAccounts) Flush(touched []*Account) {
	s.mu.Lock()
	s.takeRuns(touched)
	urgent := s.urgent
	s.mu.Unlock()
	switch {
	case !urgent:
	case s.Node == s.of.self:
		s.of.wakeLoop()
	default:
		s.Transmit()
	}
}

// takeRuns is called with the mutex.
func (s *PeerAccounts) takeRuns(touched []*Account) {
	for i, a := range touched {
		touched[i] = nil
		if a.Accept(&a.run) {
			s.of.budgets.mu.Lock()
			a.Grow(&s.of.budgets.windows)
			s.of.budgets.mu.Unlock()
		}
		s.listDue(a)
	}
}

// openAccount returns the account of a shard, a new one if its token is new; called with the
// mutex.
func (s *PeerAccounts) openAccount(shard strategy.ShardID, token protocol.Token, next uint64) *Account {
	at := &s.pages[shard/pageShards]
	page := at.Load()
	if page == nil {
		page = &accountPage{}
		at.Store(page)
	}
	a := page[shard%pageShards].Load()
	if a == nil || a.token != token {
		if a != nil {
			s.of.closeAccount(a)
		}
		a = &Account{Account: flow.NewAccount(next), s: s, shard: shard, token: token}
		page[shard%pageShards].Store(a)
	}
	return a
}

// listDue notes a grant that is due, and reports whether it is urgent; called with the mutex.
func (s *PeerAccounts) listDue(a *Account) bool {
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
func (a *Account) Park(id string, class flow.Class, bytes int) (pooled, may bool) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	b := a.s.of.budgets
	b.mu.Lock()
	defer b.mu.Unlock()
	pooled, may = a.Account.Park(id, class, a.run.Last(), bytes, a.parkedPool())
	a.run.Wait()
	a.s.listDue(a)
	return pooled, may
}

// parkedPool returns the pool that parked requests of the sender are charged to. It is nil for
// this node itself, which parks nothing beyond its window.
func (a *Account) parkedPool() *flow.Pool {
	if a.s.Node == a.s.of.self {
		return nil
	}
	return &a.s.of.pool
}

// Unpark notes that it has entered its mailbox.
func (a *Account) Unpark(id string, class flow.Class, bytes int, pooled bool) {
	a.s.mu.Lock()
	b := a.s.of.budgets
	b.mu.Lock()
	a.Account.Unpark(id, class, bytes, pooled, &a.s.of.pool)
	b.mu.Unlock()
	urgent := a.s.listDue(a)
	a.s.mu.Unlock()
	if urgent {
		a.s.of.wakeLoop()
	}
}

// Reconcile handles the report of a blocked sender.
func (s *PeerAccounts) Reconcile(shard strategy.ShardID, token protocol.Token, r flow.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.openAccount(shard, token, r.Sent+1)
	a.Accept(&a.run) // it came before
	s.of.budgets.mu.Lock()
	a.Reconcile(r, &s.of.budgets.windows)
	s.of.budgets.mu.Unlock()
	s.listDue(a)
}

// Transmit sends the notices that are due: for each account the stops of its sender, then its
// grant.
func (s *PeerAccounts) Transmit() {
	s.sending.Lock()
	defer s.sending.Unlock()
	stops, grants := s.takeDue()
	for _, frame := range stops {
		s.of.send(s.Node, frame)
	}
	if grants != nil {
		s.of.send(s.Node, grants)
	}
}

// takeDue returns the notices that are due, encoded.
func (s *PeerAccounts) takeDue() (stops [][]byte, grants []byte) {
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

// AnswerStopped answers the query of a sender whether its stop for an entity still holds. The
// shard runs here under token.
func (s *PeerAccounts) AnswerStopped(shard strategy.ShardID, token protocol.Token, id string) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	a := s.accountOf(shard)
	gate := flow.Open
	if a != nil && a.token == token {
		gate = a.GateOf(id)
	}
	s.mu.Unlock()
	if gate != flow.Control { // at flow.Control the sender's stop holds
		s.of.send(s.Node, frames.AppendStop(nil, s.of.typ, shard, token, id, gate))
	}
}

// closeAccount returns the share of an account to the budget.
func (a *Accounts) closeAccount(of *Account) {
	a.budgets.mu.Lock()
	defer a.budgets.mu.Unlock()
	of.Close(&a.budgets.windows)
}

// wakeLoop lets run look for grants that are due.
func (a *Accounts) wakeLoop() { a.wake.Set() }

// run sends the notices that no reader sends, until ctx ends.
func (a *Accounts) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		for _, s := range a.allSenders() {
			s.Transmit()
		}
	}
}

func (a *Accounts) allSenders() []*PeerAccounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*PeerAccounts, 0, len(a.senders))
	for _, s := range a.senders { // order-free: each is looked at on its own
		all = append(all, s)
	}
	return all
}

// Forget drops the accounts of a node that has left the view.
func (a *Accounts) Forget(node gossip.NodeID) {
	a.mu.Lock()
	s := a.senders[node]
	delete(a.senders, node)
	a.mu.Unlock()
	if s != nil {
		s.retainAccounts(func(*Account) bool { return false })
	}
}

// Sweep drops the accounts of shards that do not run here under their tokens.
func (a *Accounts) Sweep(hosted func(strategy.ShardID) protocol.Token) {
	for _, s := range a.allSenders() {
		s.retainAccounts(func(a *Account) bool { return hosted(a.shard) == a.token })
	}
}

func (s *PeerAccounts) retainAccounts(stays func(*Account) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.pages {
		page := s.pages[i].Load()
		for j := 0; page != nil && j < pageShards; j++ {
			if a := page[j].Load(); a != nil && !stays(a) {
				page[j].Store(nil)
				s.of.closeAccount(a)
			}
		}
	}
}
