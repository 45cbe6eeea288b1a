package residency

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// source is where the entities of a world come from.
type source int

const (
	alwaysOn source = iota
	byPlan
	remembered
	// crowded is remembered with room for few updates.
	crowded
)

func (s source) remembers() bool { return s >= remembered }

const (
	worldShards = 4
	perSecond   = 5
)

// world plays the cores of some nodes: shards move, nodes crash and join, the store is slow and
// fails, entities begin, end and crash.
type world struct {
	rand   *rand.Rand
	source source
	now    clock.Instant
	// calm is set when the faults have ended.
	calm, failing bool
	nodes         []*member
	next          gossip.NodeID
	epoch, term   gossip.Epoch
	seq           uint64
	store         map[strategy.ShardID]map[string]bool
	plans         daemon.State
	fence         gossip.Epoch
	// must has the remembered entities about which there is no doubt: true if it must run.
	// touched is when each began or passivated itself last.
	must    map[entity]bool
	touched map[entity]clock.Instant
	// dropped has the entities that passivated themselves when there was no room for the update.
	dropped map[entity]bool
	wrong   string
	starts  int
}

// member is a node of a world.
type member struct {
	w       *world
	id      gossip.NodeID
	core    *Core
	pace    Pace
	known   daemon.Members
	hosted  map[strategy.ShardID]protocol.Token
	running map[entity]int
	// ended are the entities that passivated themselves in the present allocation.
	ended   map[entity]bool
	flights []*flight
	recalls []clock.Instant
	tries   map[try][]clock.Instant
}

// try is what one start is counted under.
type try struct {
	entity
	token protocol.Token
	rev   daemon.Rev
}

// flight is an action that blocks, on its way.
type flight struct {
	a       Action
	out     Outcome
	applied bool
	until   clock.Instant
}

func newWorld(seed uint64, from source) *world {
	w := &world{
		rand: rand.New(rand.NewPCG(seed, uint64(from))), source: from, now: 1, term: 1,
		store: map[strategy.ShardID]map[string]bool{}, must: map[entity]bool{}, touched: map[entity]clock.Instant{},
		dropped: map[entity]bool{},
		plans:   daemon.State{Acked: map[gossip.NodeID]daemon.Ack{}},
	}
	for i := range strategy.ShardID(worldShards) {
		w.store[i] = map[string]bool{}
	}
	for range 3 {
		w.join()
	}
	w.leader().known = w.members()
	return w
}

func (w *world) members() daemon.Members {
	m := daemon.Members{Epoch: w.epoch}
	for _, n := range w.nodes {
		m.Nodes = append(m.Nodes, n.id)
	}
	return m
}

// leader is the node that allocates shards and writes plans.
func (w *world) leader() *member { return w.nodes[0] }

func (w *world) join() {
	w.next++
	w.epoch++
	n := &member{
		w: w, id: w.next, pace: NewPace(perSecond), hosted: map[strategy.ShardID]protocol.Token{},
		running: map[entity]int{}, ended: map[entity]bool{}, tries: map[try][]clock.Instant{},
	}
	w.nodes = append(w.nodes, n)
	n.known = w.members()
	cfg := Config{Shards: worldShards}
	switch w.source {
	case alwaysOn:
		cfg.AlwaysOn = func(strategy.ShardID) string { return "s" }
	case byPlan:
		cfg.Daemon = &Daemon{First: 2, Max: worldShards}
	case crowded:
		cfg.UpdatesMax, cfg.StartsMax = 2, 1
		fallthrough
	default:
		cfg.ShardOf = func(id string) (strategy.ShardID, bool) { return shardIn(id), true }
	}
	n.core = New(cfg)
	n.core.Attach(&Node{
		Self: n.id, LeaseValid: func() bool { return true }, Turn: n.pace.Turn, StopWithin: time.Second,
		Token:   func(i strategy.ShardID) protocol.Token { return n.hosted[i] },
		Members: func() daemon.Members { return n.known },
		Office: func() gossip.Epoch {
			if n != w.leader() {
				return 0
			}
			return w.term
		},
	}, w.now)
}

func shardIn(id string) strategy.ShardID { return strategy.ShardID(id[0]-'0') % worldShards }

// crashNode removes a node: its leases have ended, so it runs nothing.
func (w *world) crashNode(n *member) {
	for i := range n.hosted { // order-free: each is doubted by itself
		w.doubt(i)
	}
	for _, f := range n.flights {
		w.doubtWrite(&f.a)
	}
	w.nodes = slices.DeleteFunc(w.nodes, func(o *member) bool { return o == n })
	w.epoch++
	w.term = w.epoch
	w.leader().known = w.members()
}

// doubt forgets what must hold for entities of a shard whose home changes, unless the store has
// had it for a while.
func (w *world) doubt(i strategy.ShardID) {
	for e, must := range w.must { // order-free: each is judged by itself
		if e.shard == i && (w.store[i][e.id] != must || w.now.Sub(w.touched[e]) < 4*storeTimeout) {
			delete(w.must, e)
		}
	}
}

// doubtWrite forgets what must hold for the entities of a write that is not of their home.
func (w *world) doubtWrite(a *Action) {
	for _, id := range slices.Concat(a.Add, a.Remove) {
		e := entity{a.Shard, id}
		delete(w.must, e)
		for _, n := range w.nodes {
			delete(n.ended, e)
		}
	}
}

func (w *world) home(i strategy.ShardID) *member {
	for _, n := range w.nodes {
		if _, in := n.hosted[i]; in {
			return n
		}
	}
	return nil
}

// allocate gives a shard a home that the leader has in its view, under a new token.
func (w *world) allocate(i strategy.ShardID) {
	w.release(i)
	to := w.nodes[w.rand.IntN(len(w.nodes))]
	if !slices.Contains(w.leader().known.Nodes, to.id) {
		return
	}
	w.seq++
	to.hosted[i] = protocol.Token{Term: 1, Seq: w.seq}
	to.core.Inspect()
}

// release ends the instances of a shard at its home.
func (w *world) release(i strategy.ShardID) {
	n := w.home(i)
	if n == nil {
		return
	}
	w.doubt(i)
	delete(n.hosted, i)
	maps.DeleteFunc(n.running, func(e entity, _ int) bool { return e.shard == i })
	maps.DeleteFunc(n.ended, func(e entity, _ bool) bool { return e.shard == i })
}

// begin begins an instance, unless the node refuses it or it fails.
func (n *member) begin(e entity) {
	of := 0
	if n.w.source == byPlan {
		p, mayStart := n.core.Plan()
		worker, _ := strconv.Atoi(e.id)
		if !mayStart || !p.Runs(worker) {
			return
		}
		of = p.Workers
	}
	if !n.w.calm && n.w.rand.IntN(8) == 0 {
		n.note(func() { n.core.NoteCrash(e.shard, e.id) })
		return
	}
	n.running[e] = of
	n.note(func() { n.core.NoteLife(e.shard, e.id, true) })
}

// note calls f if entities are remembered: no other type reports lives.
func (n *member) note(f func()) {
	if n.w.source.remembers() {
		f()
	}
}

// perform performs all actions that are due. Those that block begin.
func (n *member) perform() {
	for {
		a, ok := n.core.Next(n.w.now)
		if !ok {
			return
		}
		if a.Blocks() {
			n.flights = append(n.flights, &flight{a: a, until: n.w.now.Add(a.Timeout())})
			continue
		}
		o := Outcome{OK: true}
		switch a.Kind {
		case Start, Recall:
			o.OK = n.start(&a)
		case StopAll:
			o.Running = n.stopAll(a.Abandon)
		}
		n.core.Done(&a, &o, n.w.now)
	}
}

// start starts an entity, and checks that it may.
func (n *member) start(a *Action) bool {
	e := entity{a.Shard, a.ID}
	token, here := n.hosted[a.Shard]
	if _, runs := n.running[e]; runs || !here {
		return false
	}
	n.w.starts++
	if n.ended[e] && !n.w.dropped[e] {
		n.w.wrong = fmt.Sprintf("%v is started after it has passivated itself", e)
	}
	if a.Kind == Recall {
		n.recalls = append(n.recalls, n.w.now)
		if i := len(n.recalls) - 1 - perSecond - 1; i >= 0 && n.w.now.Sub(n.recalls[i]) < time.Second {
			n.w.wrong = fmt.Sprintf("more than %d entities start in a second", perSecond)
		}
	}
	p, _ := n.core.Plan()
	key := try{e, token, p.Rev}
	n.tries[key] = append(n.tries[key], n.w.now)
	most := 2 // at the end of one round and at the beginning of the next
	if a.Kind == Recall {
		most++ // and once since its shard was read
	}
	if all := n.tries[key]; len(all) > most && n.w.now.Sub(all[len(all)-1-most]) < Every {
		n.w.wrong = fmt.Sprintf("%v is started %d times within %v", e, most+1, n.w.now.Sub(all[len(all)-1-most]))
	}
	n.begin(e)
	return true
}

func (n *member) stopAll(abandon bool) (running int) {
	for _, e := range n.instances() {
		if n.w.rand.IntN(3) == 0 {
			delete(n.running, e)
			continue
		}
		running++
		if abandon {
			n.w.allocate(e.shard)
		}
	}
	return running
}

// instances returns what runs, in order.
func (n *member) instances() []entity {
	return slices.SortedFunc(maps.Keys(n.running), func(a, b entity) int {
		return (int(a.shard)-int(b.shard))*100 + slices.Compare([]byte(a.id), []byte(b.id))
	})
}

// advance moves a random flight on: it takes effect, then ends. Either may fail to arrive.
func (n *member) advance() {
	if len(n.flights) == 0 {
		return
	}
	i := n.w.rand.IntN(len(n.flights))
	f := n.flights[i]
	late := !n.w.now.Before(f.until)
	if !f.applied && !late && !n.w.failing {
		f.applied = true
		f.out.OK = true
		n.apply(f)
		return
	}
	if late || n.w.failing || !n.w.calm && n.w.rand.IntN(8) == 0 {
		f.out.OK = false
	}
	n.flights = slices.Delete(n.flights, i, i+1)
	n.core.Done(&f.a, &f.out, n.w.now)
}

func (n *member) apply(f *flight) {
	w, a := n.w, &f.a
	switch a.Kind {
	case Read:
		f.out.IDs = slices.Sorted(maps.Keys(w.store[a.Shard]))
	case Write:
		if w.home(a.Shard) != n {
			w.doubtWrite(a)
		}
		for _, id := range a.Add {
			w.store[a.Shard][id] = true
		}
		for _, id := range a.Remove {
			delete(w.store[a.Shard], id)
		}
	case ReadPlan:
		w.fence = max(w.fence, a.Term)
		f.out.State = w.planState()
	case WritePlan:
		f.out.OK = a.Term >= w.fence // a fenced write is merged too: its stamp orders it
		if a.Plan.Rev.Compare(w.plans.Plan.Rev) > 0 {
			w.plans.Plan = a.Plan
		}
		for _, gone := range a.Gone {
			delete(w.plans.Acked, gone)
		}
	case AckPlan:
		if w.plans.Acked[n.id].Rev.Compare(a.Ack.Rev) <= 0 {
			w.plans.Acked[n.id] = a.Ack
		}
	}
}

func (w *world) planState() daemon.State {
	s := w.plans
	s.Acked = maps.Clone(s.Acked)
	return s
}

// step does one random thing, then all that is due.
func (w *world) step() {
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	i := strategy.ShardID(w.rand.IntN(worldShards))
	switch roll := w.rand.IntN(100); {
	case roll < 35:
		w.now = w.now.Add(time.Duration(w.rand.IntN(60)) * time.Millisecond)
	case roll < 70:
		n.advance()
	case roll < 80:
		w.live(i)
	case roll < 84:
		s := w.planState()
		n.core.NotePlan(&s)
	case roll < 87:
		n.known = w.members()
	case w.home(i) == nil || !w.calm && roll < 90:
		w.allocate(i)
	case w.calm:
	default:
		w.disturb(n, i, roll)
	}
	for _, n := range w.nodes {
		n.perform()
	}
	w.check()
}

func (w *world) disturb(n *member, i strategy.ShardID, roll int) {
	switch {
	case roll < 92:
		w.release(i)
	case roll < 94:
		w.failing = !w.failing
	case roll < 95:
		w.plans.Wish = 1 + w.rand.IntN(worldShards)
	case roll < 97 && len(w.nodes) < 4:
		w.join()
	case roll == 98 && len(w.nodes) > 1 && w.rand.IntN(3) == 0:
		w.crashNode(n)
	}
}

// live lets a message, or an entity of a shard, act.
func (w *world) live(i strategy.ShardID) {
	n := w.home(i)
	if n == nil {
		return
	}
	e := entity{i, fmt.Sprint(int(i)+worldShards*w.rand.IntN(2), "-", w.rand.IntN(3))}
	switch w.source {
	case alwaysOn:
		e.id = "s"
	case byPlan:
		e.id = strconv.Itoa(int(i))
	}
	_, runs := n.running[e]
	switch roll := w.rand.IntN(5); {
	case !runs && w.source == alwaysOn:
	case !runs:
		delete(n.ended, e)
		n.begin(e)
		if _, runs = n.running[e]; runs {
			w.must[e], w.touched[e] = true, w.now
		}
	case roll == 0:
		delete(n.running, e)
		n.note(func() { n.core.NoteCrash(i, e.id) })
	case roll == 1:
		delete(n.running, e)
		before := n.core.Dropped()
		n.note(func() { n.core.NoteLife(i, e.id, false) })
		n.ended[e] = w.source.remembers()
		w.must[e], w.touched[e] = false, w.now
		if n.core.Dropped() > before {
			w.dropped[e] = true
		}
	}
}

// check checks that all workers that run were started with the same number (G11).
func (w *world) check() {
	number := 0
	for _, n := range w.nodes {
		for e, of := range n.running { // order-free: all are compared
			if number != 0 && of != number {
				w.wrong = fmt.Sprintf("%v runs as one of %d, another worker as one of %d", e, of, number)
			}
			number = of
		}
	}
}

// desired returns the entities of a shard that must run.
func (w *world) desired(i strategy.ShardID) []string {
	switch {
	case w.source == alwaysOn:
		return []string{"s"}
	case w.source.remembers():
		return w.judged(i, slices.Sorted(maps.Keys(w.store[i])))
	case w.plans.Plan.Runs(int(i)):
		return []string{strconv.Itoa(int(i))}
	}
	return nil
}

// judged returns the ids of which no removal was dropped.
func (w *world) judged(i strategy.ShardID, ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return w.dropped[entity{i, id}] })
}

// checkCalm checks, after the faults, that each desired entity runs at its home, and no other.
func (w *world) checkCalm() string {
	for i := range strategy.ShardID(worldShards) {
		n := w.home(i)
		if n == nil {
			return fmt.Sprintf("shard %d has no home", i)
		}
		var runs []string
		for _, e := range n.instances() {
			if e.shard == i {
				runs = append(runs, e.id)
			}
		}
		if want := w.desired(i); !slices.Equal(w.judged(i, runs), want) {
			return fmt.Sprintf("shard %d runs %q, want %q", i, runs, want)
		}
		for e, must := range w.must { // order-free: the first difference ends the run
			if e.shard == i && w.source.remembers() && !w.dropped[e] && slices.Contains(runs, e.id) != must {
				return fmt.Sprintf("%v runs: %v, must run: %v", e, !must, must)
			}
		}
		if waiting := n.core.Waiting(); waiting != 0 {
			return fmt.Sprintf("%d updates wait", waiting)
		}
	}
	if w.source == byPlan && (!w.plans.Plan.Running || w.plans.Wish != 0 && w.plans.Plan.Workers != w.plans.Wish) {
		return fmt.Sprintf("the plan is %+v, the wish %d", w.plans.Plan, w.plans.Wish)
	}
	return ""
}

// play plays a seed: faults, then a calm time. It returns what is wrong.
func play(seed uint64, from source) (wrong string, starts int) {
	w := newWorld(seed, from)
	for i := range 6000 {
		if w.calm = i > 3000; w.calm {
			w.failing = false
		}
		if w.step(); w.wrong != "" {
			return w.wrong, w.starts
		}
	}
	for end := w.now.Add(20 * time.Second); w.now.Before(end); {
		w.now = w.now.Add(10 * time.Millisecond)
		for _, n := range w.nodes {
			n.known = w.members()
			s := w.planState()
			n.core.NotePlan(&s)
			for len(n.flights) > 0 {
				n.advance()
			}
			n.perform()
		}
		if w.check(); w.wrong != "" {
			return w.wrong, w.starts
		}
	}
	return w.checkCalm(), w.starts
}
