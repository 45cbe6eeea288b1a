package sharding

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// cluster is some nodes' shardings over a network and a store under a test's
// control: views and leases are what the test says.
type cluster struct {
	t     testing.TB
	mu    sync.Mutex
	epoch gossip.Epoch
	nodes []*node
	// started are those of the nodes that have a sharding.
	started []*node
	store   *memStore
	cuts    map[[2]gossip.NodeID]bool
	// closed are pairs where nothing is under way from the first to the second.
	closed map[[2]gossip.NodeID]bool
	// delay is the network's; entity messages take slow longer.
	delay, slow time.Duration
	// loss may eat a frame of class Bulk.
	loss func() bool
	// eat may eat any frame of an entity's.
	eat func(frame []byte) bool
	// sent, if set, is called with each frame that is sent.
	sent func(to gossip.NodeID, k transport.Kind, payload []byte)
	// frameMax, if set, is what connections take at most.
	frameMax int
	// told are the told messages that the network lost.
	told atomic.Uint64
	// recordIn replaces store if it is set. perSecond is for Config.RememberedPerSecond.
	recordIn  placement.Store
	perSecond int
	// strict is Config.Strict of all nodes.
	strict bool
}

type node struct {
	c     *cluster
	self  gossip.Node
	reg   *Registry
	s     *service
	lease atomic.Bool
	// valid stands in for lease if it is set.
	valid func() bool
	// log is the test's own, nil for the common one; capacity is the node's.
	log      *slog.Logger
	capacity uint32
	observer figures.ShardingObserver
	// lostAt is when the lease ended, in the bubble's nanoseconds; 0 while it holds.
	lostAt atomic.Int64
	dead   atomic.Bool
	pipes  map[gossip.NodeID]*pipe
}

// pipe carries the frames of one direction, in order, from a goroutine.
type pipe struct {
	mu    sync.Mutex
	queue []func()
	run   bool
}

func newCluster(t testing.TB) *cluster {
	return &cluster{
		t: t, epoch: gossip.FirstEpoch(1), store: &memStore{},
		cuts: map[[2]gossip.NodeID]bool{}, closed: map[[2]gossip.NodeID]bool{},
	}
}

func (c *cluster) add(name string, roles ...string) *node {
	n := &node{
		c: c, reg: &Registry{}, pipes: map[gossip.NodeID]*pipe{},
		self: gossip.Node{ID: gossip.NodeID(len(c.nodes) + 1), Name: name, Roles: roles},
	}
	n.lease.Store(true)
	c.nodes = append(c.nodes, n)
	return n
}

// start gives the node its sharding; types may be registered before or after.
func (n *node) start() {
	var err error
	cfg := placement.Config{
		Self: n.self, Links: links{n}, LeaseValid: n.lease.Load, Clock: clock.Runtime(),
		Store: func(string) placement.Store {
			if n.c.recordIn != nil {
				return n.c.recordIn
			}
			return n.c.store
		}, Logger: testLogger(n.self.Name),
		Strict: n.c.strict, Capacity: n.capacity, RememberedPerSecond: n.c.perSecond,
	}
	if n.log != nil {
		cfg.Logger = n.log
	}
	if n.valid != nil {
		cfg.LeaseValid = n.valid
	}
	n.s, err = n.reg.startService(cfg, n.observer)
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.s.LeaseChanged(n.lease.Load())
	n.c.mu.Lock()
	n.c.started = append(n.c.started, n)
	n.c.mu.Unlock()
	n.c.t.Cleanup(func() {
		if err := n.s.Close(context.Background()); err != nil {
			n.c.t.Error(err)
		}
	})
}

func testLogger(name string) *slog.Logger {
	if os.Getenv("PEERAGE_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", name)
}

// install gives all living nodes a new view of the nodes named.
func (c *cluster) install(members ...*node) {
	v := c.next(members...)
	for _, n := range members {
		if !n.dead.Load() {
			n.s.ViewChanged(v)
		}
	}
}

// next makes a view that nobody knows yet.
func (c *cluster) next(members ...*node) *gossip.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	v := &gossip.View{Cluster: 1, Epoch: c.epoch}
	for _, n := range members {
		v.Members = append(v.Members, gossip.Member{Node: n.self, Joined: gossip.FirstEpoch(1), Status: gossip.Up})
	}
	return v
}

// setLease gives or takes the node's lease.
func (n *node) setLease(valid bool) {
	n.lostAt.Store(0)
	if !valid {
		n.lostAt.Store(time.Now().UnixNano())
	}
	n.lease.Store(valid)
}

// up returns the nodes that were started, dead ones included.
func (c *cluster) up() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.started)
}

// kill ends a node as a crash does: the others see their connections break.
func (c *cluster) kill(n *node) {
	n.dead.Store(true)
	n.setLease(false)
	for _, o := range c.up() {
		if o != n && !o.dead.Load() {
			o.s.PeerLost(n.self.ID, transport.Message)
		}
	}
}

type links struct{ n *node }

func (l links) Send(to gossip.NodeID, class transport.Class, k transport.Kind, payload []byte) error {
	n := l.n
	if n.dead.Load() {
		return transport.ErrClosed
	}
	var target *node
	for _, o := range n.c.up() {
		if o.self.ID == to {
			target = o
		}
	}
	if target == nil || target.dead.Load() {
		if payload[0] == byte(frames.KindRefused) {
			n.c.noteLost(k, payload)
		}
		return transport.ErrUnknownPeer
	}
	if n.c.sent != nil {
		n.c.sent(to, k, payload)
	}
	if n.c.frameMax > 0 && len(payload) > n.c.frameMax {
		return transport.ErrFrameTooLarge
	}
	if class == transport.Bulk && n.c.loss != nil && n.c.loss() {
		return nil
	}
	if k == transport.KindEntity && n.c.eat != nil && n.c.eat(payload) {
		return nil
	}
	n.c.mu.Lock()
	cut := n.c.cuts[[2]gossip.NodeID{n.self.ID, to}]
	n.c.mu.Unlock()
	if cut {
		n.c.noteLost(k, payload)
		return nil
	}
	frame := append([]byte(nil), payload...)
	due := time.Now().Add(n.c.delay)
	if class == transport.Message {
		due = due.Add(n.c.slow)
	}
	deliver := func() {
		if wait := time.Until(due); wait > 0 {
			pass(wait)
		}
		if target.dead.Load() || n.dead.Load() {
			n.c.noteLost(k, frame)
			return
		}
		if k == transport.KindEntity {
			target.s.HandleEntities(n.self.ID, &one{frame})
		} else {
			target.s.HandleCoordinator(n.self.ID, frame)
		}
	}
	n.pipe(to<<8 | gossip.NodeID(class)).push(deliver)
	return nil
}

// noteLost counts a told message that is lost with its connection, on its way or back.
func (c *cluster) noteLost(k transport.Kind, frame []byte) {
	if k == transport.KindEntity && frame[0] == byte(frames.KindRefused) {
		_, frame, _, _ = frames.ParseRefused(frame)
	}
	if k == transport.KindEntity && frame[0] == byte(frames.KindTell) {
		c.told.Add(1)
	}
}

// one is a block of one frame.
type one struct{ frame []byte }

func (o *one) Next() ([]byte, bool) {
	f := o.frame
	o.frame = nil
	return f, f != nil
}

func (l links) Open(to gossip.NodeID, _ transport.Class) bool {
	l.n.c.mu.Lock()
	defer l.n.c.mu.Unlock()
	return !l.n.c.closed[[2]gossip.NodeID{l.n.self.ID, to}]
}

func (l links) WaitRoom(ctx context.Context, _ gossip.NodeID, _ transport.Class) error {
	return ctx.Err()
}

func (n *node) pipe(to gossip.NodeID) *pipe {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	p := n.pipes[to]
	if p == nil {
		p = &pipe{}
		n.pipes[to] = p
	}
	return p
}

func (p *pipe) push(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, f)
	if !p.run {
		p.run = true
		go p.work()
	}
}

func (p *pipe) work() {
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.run = false
			p.mu.Unlock()
			return
		}
		f := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		f()
	}
}

// memStore is a Store that every node can reach.
type memStore struct {
	mu     sync.Mutex
	terms  map[string]gossip.Epoch
	shards map[string]map[ShardID]protocol.Record
	delay  time.Duration
	// wanted is what Place said, for all types; watchers are told of it.
	wanted   map[ShardID]string
	watchers []func(map[ShardID]string)
	plans    planBook
}

func (m *memStore) Place(_ context.Context, _ string, wanted map[ShardID]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(wanted)
	for shard, name := range m.wanted {
		if _, said := wanted[shard]; !said {
			next[shard] = name
		}
	}
	maps.DeleteFunc(next, func(_ ShardID, name string) bool { return name == "" })
	m.wanted = next
	for _, fn := range m.watchers {
		fn(next)
	}
	return nil
}

func (m *memStore) WatchPlaces(_ string, fn func(map[ShardID]string)) (cancel func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(m.watchers, fn)
	fn(m.wanted)
	return func() {}
}

func (m *memStore) fence(typ string, term gossip.Epoch) error {
	if m.terms == nil {
		m.terms, m.shards = map[string]gossip.Epoch{}, map[string]map[ShardID]protocol.Record{}
	}
	if term < m.terms[typ] {
		return &replicator.Error{Code: replicator.ErrFenced, Fence: replicator.Fence{Term: uint64(term)}, Higher: uint64(m.terms[typ])}
	}
	m.terms[typ] = term
	return nil
}

func (m *memStore) Write(_ context.Context, typ string, w coordinator.Write) error {
	if m.delay > 0 {
		pass(m.delay)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fence(typ, w.Term); err != nil {
		return err
	}
	if m.shards[typ] == nil {
		m.shards[typ] = map[ShardID]protocol.Record{}
	}
	for _, r := range w.Records {
		if m.shards[typ][r.Shard].Token.Less(r.Token) {
			m.shards[typ][r.Shard] = r
		}
	}
	return nil
}

func (m *memStore) Read(_ context.Context, typ string, term gossip.Epoch) (placement.Records, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fence(typ, term); err != nil {
		return placement.Records{}, err
	}
	var r placement.Records
	for _, rec := range m.shards[typ] {
		r.Shards = append(r.Shards, rec)
	}
	return r, nil
}

// say is a request of the tests' entity: it notes n, in the order of arrival.
type say struct {
	From string
	N    int
}

// heard is its answer: where it was handled, and how often so far.
type heard struct {
	Node  gossip.NodeID
	Count int
}

// ear is the tests' entity. The journal outlives its instances.
type ear struct {
	id    string
	j     *journal
	count int
}

// journal is what all instances of all nodes have handled.
type journal struct {
	mu    sync.Mutex
	lines map[string][]say
	live  map[string]gossip.NodeID
	homes map[string][]gossip.NodeID
	gate  chan struct{}
}

func newJournal() *journal {
	return &journal{lines: map[string][]say{}, live: map[string]gossip.NodeID{}, homes: map[string][]gossip.NodeID{}}
}

func (e *ear) Handle(ctx *Context, s say) (heard, error) {
	e.j.mu.Lock()
	e.j.lines[e.id] = append(e.j.lines[e.id], s)
	if h := e.j.homes[e.id]; len(h) == 0 || h[len(h)-1] != ctx.Self().Node {
		e.j.homes[e.id] = append(h, ctx.Self().Node)
	}
	gate := e.j.gate
	e.j.mu.Unlock()
	if s.N == stuck && gate != nil {
		<-gate
	}
	e.count++
	return heard{ctx.Self().Node, e.count}, nil
}

const stuck = -1

// checkOrder fails the test if a sender's numbers went down at any entity.
func (j *journal) checkOrder(t testing.TB) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, lines := range j.lines {
		last := map[string]int{}
		for _, l := range lines {
			if l.N <= last[l.From] {
				t.Errorf("%s: %s's %d came behind %d", id, l.From, l.N, last[l.From])
			}
			last[l.From] = l.N
		}
	}
}

func (j *journal) count(id string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines[id])
}

// register gives a node the tests' type.
func (n *node) register(j *journal, change func(*Type[say, heard])) *Region[say, heard] {
	t := Type[say, heard]{
		Name: "ear", Shards: 16,
		New: func(id string) Entity[say, heard] { return &ear{id: id, j: j} },
	}
	if change != nil {
		change(&t)
	}
	r, err := Register(n.reg, t)
	if err != nil {
		n.c.t.Fatal(err)
	}
	return r
}

// three starts a cluster of three nodes that host the tests' type.
func three(t testing.TB, j *journal, change func(*Type[say, heard])) (*cluster, []*node, []*Region[say, heard]) {
	c := newCluster(t)
	var nodes []*node
	var regions []*Region[say, heard]
	for i := range 3 {
		n := c.add(fmt.Sprintf("n%d", i+1))
		nodes = append(nodes, n)
		regions = append(regions, n.register(j, change))
		n.start()
	}
	c.install(nodes...)
	return c, nodes, regions
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// explain returns the node's newest events of a shard, oldest first.
func (n *node) explain(typ string, shard ShardID) []placement.Event {
	q := &protocol.Query{Head: protocol.Head{Type: typ}, Shard: shard, HasShard: true}
	return placement.NodeEvents(n.self.ID, shard, n.s.drivers.Answer(q).Events)
}

// office returns the term in which the node coordinates a type, 0 if it does not.
func (n *node) office(typ string) gossip.Epoch {
	return n.reg.types[typ].driver.Load().OfficeTerm()
}

// dump logs what every node knows.
func (c *cluster) dump(t testing.TB) {
	for _, n := range c.nodes {
		for _, ty := range n.s.Status() {
			for _, s := range ty.Shards {
				t.Logf("%s: shard %d at %v under %v, %s, %d entities, %d buffered, hosted here under %v", n.self.Name, s.Shard, s.Home, s.Token,
					s.Route, s.Entities, s.Buffered, n.s.endpoints.Find([]byte(ty.Type)).HostedUnder(s.Shard))
			}
		}
	}
}

// pass lets time pass: in a bubble it is virtual, and goes on when nothing is
// left to do.
func pass(d time.Duration) {
	if d > 0 { // Go 1.26.8 with -race crashes at a timer in a bubble that is due at once
		<-time.After(d)
	}
}
