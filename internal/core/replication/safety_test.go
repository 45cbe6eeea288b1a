package replication

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

// S4, directed: two members that a write has never reached form a majority of
// the next view together with the one member that the write did not reach.
func TestMajorityReadAfterMembersJoined(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	w.cut = func(a, b gossip.NodeID) bool { return a == 3 || b == 3 }
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.start(4)
	w.start(5)
	// Neither 4 nor 5 ever receives a message of 1 and 2.
	w.cut = func(a, b gossip.NodeID) bool { return (a <= 2) != (b <= 2) }
	w.setView(w.next(add(gossip.Joining, 4, 5)))
	w.run(time.Second)
	w.setView(w.next(add(gossip.Up, 4, 5)))
	w.run(time.Second)
	if r := w.reply(5, w.read(5, majority, replicator.Fence{}, "k")); r.Err == nil {
		t.Fatalf("a majority read without an answer of a replica that may have the write returned %v", elements(r.Values[0]))
	}
	w.cut = nil
	if r := w.reply(5, w.read(5, majority, replicator.Fence{}, "k")); r.Err != nil || len(elements(r.Values[0])) != 1 {
		t.Fatalf("%v %v", r.Values, r.Err)
	}
	w.run(2 * time.Second)
	for _, id := range w.order {
		if !w.nodes[id].core.Stats().Settled {
			t.Errorf("node %v never settled: %s", id, w.states())
		}
	}
	// Settled: three of five are enough again, whichever they are.
	w.cut = func(a, b gossip.NodeID) bool { return (a <= 2) != (b <= 2) }
	if r := w.reply(5, w.read(5, majority, replicator.Fence{}, "k")); r.Err != nil || len(elements(r.Values[0])) != 1 {
		t.Errorf("%v %v", r.Values, r.Err)
	}
}

// A write that was counted over an old view, while one of its members already
// stands in the next, does not count.
func TestAckFromALaterViewWaitsForIt(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	for _, id := range ids(4, 5) {
		w.start(id)
	}
	v2 := w.next(add(gossip.Up, 4, 5))
	for _, id := range ids(2, 3, 4, 5) {
		w.step(id, ViewChanged{View: v2})
	}
	w.run(time.Second)
	w.cut = func(a, b gossip.NodeID) bool {
		return a == 1 && b > 2 || b == 1 && a > 2 || a == 2 && b > 2 || b == 2 && a > 2
	}
	rid := w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))
	w.run(20 * time.Millisecond)
	if _, ok := w.nodes[1].replies[rid]; ok {
		t.Fatal("counted over a view that has passed")
	}
	w.cut = nil
	w.step(1, ViewChanged{View: v2})
	if r := w.reply(1, rid); r.Err != nil {
		t.Error(r.Err)
	}
}

// A replaced writer completes nothing: neither on members that know the higher
// term, nor with the help of newcomers that do not.
func TestReplacedWriterCompletesNothing(t *testing.T) {
	old, new := replicator.Fence{Group: "coordinator", Term: 5}, replicator.Fence{Group: "coordinator", Term: 7}
	w := newWorld(t, 1, 3, nil)
	if r := w.reply(3, w.update(3, majority, old, setIn(3, "shards", "s1", "home3", 5, 1))); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.cut = func(a, b gossip.NodeID) bool { return a == 3 || b == 3 }
	if r := w.reply(1, w.read(1, majority, new, "shards")); r.Err != nil {
		t.Fatal(r.Err)
	}
	// The old one is cut off with two newcomers: three of five, and none of them has
	// received term 7.
	w.start(4)
	w.start(5)
	w.cut = func(a, b gossip.NodeID) bool { return (a <= 2) != (b <= 2) }
	w.setView(w.next(add(gossip.Up, 4, 5)))
	r := w.reply(3, w.update(3, majority, old, setIn(3, "shards", "s2", "home3", 5, 2)))
	if r.Err == nil {
		t.Fatal("the replaced writer completed a write")
	}
	w.cut = nil
	r = w.reply(3, w.update(3, majority, old, setIn(3, "shards", "s3", "home3", 5, 3)))
	var f *replicator.Error
	if !errors.As(r.Err, &f) || f.Code != replicator.ErrFenced || f.Higher != 7 {
		t.Fatalf("err = %v", r.Err)
	}
	// It knows now, and is refused before anything is written.
	rid := w.update(3, replicator.Local, old, setIn(3, "shards", "s4", "home3", 5, 4))
	if r := w.nodes[3].replies[rid]; !errors.Is(r.Err, replicator.ErrFenced) {
		t.Errorf("err = %v", r.Err)
	}
	if r := w.reply(1, w.update(1, majority, new, setIn(1, "shards", "s2", "home1", 7, 1))); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.settle(5 * time.Second)
	for _, id := range w.order {
		m := w.nodes[id].core.Value("shards").(*crdt.LWWMap[string, string])
		if v, _ := m.Get("s2"); v != "home1" {
			t.Errorf("node %v: s2 = %q", id, v)
		}
		if _, ok := m.Get("s4"); ok {
			t.Errorf("node %v has what was refused at its writer", id)
		}
	}
}

// An answer that was lost is not made up for by one that says less.
func TestLostNackIsNotAnAck(t *testing.T) {
	if wrong := lostNack(t); wrong != "" {
		t.Error(wrong)
	}
}

// campaign is one random run: writers, readers, faults, and views that change.
type campaign struct {
	*world
	o      oracle
	acked  []string // elements of the grow-only key that a majority confirmed
	reads  int
	writes int
	failed int
	n      int
	nextID gossip.NodeID
}

func (c *campaign) write() {
	id := c.order[c.rng.IntN(len(c.order))]
	c.n++
	e := fmt.Sprintf("%v-%d", id, c.n)
	rid := c.update(id, majority, replicator.Fence{}, c.o.spy(addTo(id, "grow", e)), c.o.spy(randomOp(c.rng, id, c.n)))
	c.onAnswer(id, rid, func(r Reply) {
		if c.writes++; r.Err == nil {
			c.acked = append(c.acked, e)
		} else {
			c.failed++
		}
	})
}

func (c *campaign) check() {
	id := c.order[c.rng.IntN(len(c.order))]
	owed := slices.Clone(c.acked)
	rid := c.read(id, majority, replicator.Fence{}, "grow")
	begun, v := c.now, c.view.Epoch
	c.onAnswer(id, rid, func(r Reply) {
		if c.reads++; r.Err != nil {
			return
		}
		have := elements(r.Values[0])
		for _, e := range owed {
			if _, ok := slices.BinarySearch(have, e); !ok {
				c.t.Fatalf("S4: %s was confirmed before %v (view %v); a majority read begun then at node %v does not have it\n%s", e, begun, v, id, c.states())
			}
		}
	})
}

// spread reports whether every living member of the view holds everything that
// a majority confirmed: then one more may be lost.
func (c *campaign) spread() bool {
	for _, id := range c.order {
		if !c.nodes[id].core.Stats().Settled || c.nodes[id].core.members.epoch != c.view.Epoch {
			return false
		}
	}
	return true
}

// change makes the next view: somebody comes, goes up, leaves, or crashes. Each
// member receives it in its own time, but all views in order.
func (c *campaign) change() {
	edit := add(gossip.Joining, c.nextID)
	alive := len(c.order)
	joining := slices.IndexFunc(c.view.Members, func(m gossip.Member) bool { return m.Status == gossip.Joining })
	switch k := c.rng.IntN(4); {
	case joining >= 0 && k < 2:
		edit = add(gossip.Up, c.view.Members[joining].ID)
	case alive < 7 && k < 3:
		c.start(c.nextID)
		c.nextID++
	case alive > 3 && c.spread():
		gone := c.order[c.rng.IntN(alive)]
		c.crash(gone)
		edit = remove(gone)
	default:
		return
	}
	v := c.next(edit)
	c.view = v
	for _, id := range slices.Clone(c.order) {
		if v.Member(id) != nil {
			c.tell(id, v)
		}
	}
}

// tell hands v over after a while, and never before its predecessor.
func (c *campaign) tell(id gossip.NodeID, v *gossip.View) {
	var deliver func()
	deliver = func() {
		n := c.nodes[id]
		if n == nil {
			return
		}
		if has := n.core.members.epoch; has != 0 && has+1 < v.Epoch {
			c.after(time.Millisecond, deliver)
			return
		}
		c.step(id, ViewChanged{View: v})
	}
	c.after(time.Duration(c.rng.IntN(40))*time.Millisecond, deliver)
}

func (c *campaign) fault() {
	all := c.order
	switch c.rng.IntN(4) {
	case 0:
		side := map[gossip.NodeID]bool{}
		for _, id := range all {
			side[id] = c.rng.IntN(3) == 0
		}
		c.cut = func(a, b gossip.NodeID) bool { return side[a] != side[b] }
	case 1:
		a, b := all[c.rng.IntN(len(all))], all[c.rng.IntN(len(all))]
		c.cut = func(x, y gossip.NodeID) bool { return x == a && y == b }
		c.step(a, PeerLost{ID: b})
		c.after(50*time.Millisecond, func() { c.step(a, PeerUp{ID: b}) })
	default:
		c.cut = nil
	}
}

// small makes every other run fetch few keys at a time, so that helpers take part, and
// compare every value in parts.
func small(seed uint64) func(*Config) {
	return func(c *Config) {
		if seed%2 == 1 {
			c.FetchKeys, c.PartialMin = 1, 1
		}
	}
}

func runCampaign(t testing.TB, seed uint64) *campaign {
	c := &campaign{world: newWorld(t, seed, 3, small(seed)), o: oracle{}, nextID: 10}
	swarm := func(p float64) float64 { return p * float64(c.rng.IntN(2)) }
	c.drop, c.dup = swarm(0.1), swarm(0.1)
	c.delayMax = time.Duration(1+c.rng.IntN(10)) * time.Millisecond
	faults, changes := c.rng.IntN(2) == 0, c.rng.IntN(4) != 0
	for range 250 {
		switch k := c.rng.IntN(20); {
		case k < 8:
			c.write()
		case k < 16:
			c.check()
		case k < 18 && changes:
			c.change()
		case faults:
			c.fault()
		}
		c.run(time.Duration(c.rng.IntN(15)) * time.Millisecond)
	}
	c.cut, c.drop = nil, 0
	c.run(3 * time.Second)
	c.settle(10 * time.Second)
	c.check()
	c.run(3 * time.Second)
	return c
}

// S4, S5, L2 under loss, duplication, reordering, partitions, crashes and
// changing views. No member is lost while the view before is not settled: what a
// level covers is members lost at once.
func TestCampaign(t *testing.T) {
	t.Parallel()
	seeds := uint64(testsize.Runs(30, 40, 150))
	var acked, failed, reads, views int
	for seed := range seeds {
		c := runCampaign(t, seed)
		acked += len(c.acked)
		failed += c.failed
		reads += c.reads
		views += int(uint32(c.view.Epoch))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d seeds: %d writes confirmed, %d not, %d reads, %d views", seeds, acked, failed, reads, views)
	if acked == 0 || failed == 0 || reads == 0 {
		t.Error("the campaign did not see what it is for")
	}
}

// Terms come to newcomers with the state: a replaced writer finds no replica that
// has not received the term of its successor.
func TestNewcomersLearnTermsBeforeTheyCount(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	w.reply(1, w.read(1, majority, replicator.Fence{Group: "g", Term: 7}, "k"))
	w.start(4)
	w.start(5)
	w.setView(w.next(add(gossip.Up, 4, 5)))
	w.run(time.Second)
	w.cut = func(a, b gossip.NodeID) bool { return (a <= 2) != (b <= 2) }
	w.nodes[3].core.fences.terms = nil // a writer that has seen no term
	r := w.reply(3, w.update(3, majority, replicator.Fence{Group: "g", Term: 5}, addTo(3, "k", "e")))
	if !errors.Is(r.Err, replicator.ErrFenced) {
		t.Errorf("err = %v", r.Err)
	}
}

// A write of which one part had no effect here is confirmed only when that part
// stands at the level too.
func TestPartWithoutEffectIsConfirmedToo(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) { c.NoStream, c.NoGossip = true, true })
	w.cut = func(a, b gossip.NodeID) bool { return true }
	w.update(1, replicator.Local, replicator.Fence{}, setIn(1, "m", "k", "v", 7, 1))
	w.cut = nil
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, setIn(1, "m", "k", "v", 7, 1), addTo(1, "s", "e"))); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.crash(1)
	r := w.reply(2, w.read(2, majority, replicator.Fence{}, "m", "s"))
	if r.Values[0] == nil || r.Values[1] == nil {
		t.Errorf("confirmed and lost: %v", r.Values)
	}
}

// An answer that comes twice must not make a session believe that it has what
// the second one would have brought.
func TestDoubledAnswerOfASessionIsTakenOnce(t *testing.T) {
	c := newWorld(t, 1, 2, func(c *Config) { c.NoStream = true }).nodes[1].core
	var out Effects
	tell := func(m Message) []Send {
		out.Reset()
		c.Step(1, Received{From: 2, Msg: m}, &out)
		return out.Send
	}
	ask := tell(&Status{Epoch: c.members.epoch, Root: 99})[0].Msg.(*Compare)
	keys := make([]string, fetchKeysMax+10)
	for i := range keys {
		keys[i] = fmt.Sprintf("%06d", i)
	}
	fetch := tell(&Differ{Session: ask.Session, Ask: ask.Ask, Epoch: c.members.epoch, Next: bucketCount, Keys: keys, Prints: make([]uint64, len(keys))})
	if len(fetch) != 0 {
		t.Fatal("keys that exist nowhere were wanted")
	}
	ask = tell(&Status{Epoch: c.members.epoch, Root: 99})[0].Msg.(*Compare)
	prints := slices.Repeat([]uint64{1}, len(keys))
	first := tell(&Differ{Session: ask.Session, Ask: ask.Ask, Epoch: c.members.epoch, Next: bucketCount, Keys: keys, Prints: prints})[0].Msg.(*Fetch)
	answer := &Values{Session: ask.Session, Ask: first.Ask, Answered: 10}
	if len(tell(answer)) != 1 {
		t.Fatal("the session did not go on")
	}
	if got := tell(answer); len(got) != 0 || c.sessions.current.left() != len(keys)-10 {
		t.Errorf("the same answer counted twice: %d keys left of %d", c.sessions.current.left(), len(keys))
	}
}
