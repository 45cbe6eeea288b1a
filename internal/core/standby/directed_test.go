package standby

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// still is a world without accidents: one shard, three holders.
func still() *world {
	p := plan{nodes: 3, shards: 1, replicas: 3, mode: Quorum, delay: time.Millisecond}
	w := newWorld(1, p)
	w.settle(time.Second)
	w.run(50 * time.Millisecond)
	return w
}

func (w *world) owner() *owner { return w.node(w.shards[0].home).core.owners[0] }

// grow adds nodes until the owner wants a holder of them instead of another one.
func (w *world) grow(former []gossip.NodeID) (newcomer gossip.NodeID) {
	for range 40 {
		n := w.join()
		w.run(10 * time.Millisecond)
		if o := w.owner(); slices.Contains(o.chooseHolders(), n.id) {
			return n.id
		}
	}
	return 0
}

// succeed kills the home, and gives its shard to another holder.
func (w *world) succeed(to gossip.NodeID) {
	t := w.shards[0]
	w.node(t.home).alive = false
	w.cur = &gossip.View{Cluster: 1, Epoch: w.cur.Epoch + 1, Members: slices.DeleteFunc(
		slices.Clone(w.cur.Members), func(m gossip.Member) bool { return m.ID == t.home })}
	w.tokens++
	t.token, t.ready = protocol.Token{Term: w.cur.Epoch, Seq: w.tokens}, false
	for _, m := range w.cur.Members {
		w.node(m.ID).step(ViewChanged{View: w.cur})
	}
	w.home(0, to)
}

// unannounced returns a world at rest in which no announcement of the owner reaches the present
// holders, and these.
func unannounced() (w *world, former []gossip.NodeID) {
	w = still()
	former = slices.Clone(w.owner().layout.Members)
	w.block = func(from, to gossip.NodeID, m Message) bool {
		_, news := m.(Announce)
		return news && from == former[0] && slices.Contains(former, to)
	}
	return w, former
}

// The former holders do not receive the new layout, and are the first to answer the
// next owner: it must not believe them. So the layout may not be active before they
// have received it.
func TestFormerHoldersMustKnow(t *testing.T) { checkSound(t, formerHoldersUnaware()) }

func formerHoldersUnaware() *world {
	w, former := unannounced()
	newcomer := w.grow(former)
	w.run(100 * time.Millisecond)
	// From now on the newcomer alone keeps up with the home.
	w.block = func(from, to gossip.NodeID, m Message) bool {
		return from == former[0] && to != newcomer || to == former[0] && from != newcomer
	}
	w.run(100 * time.Millisecond)
	w.block = func(from, to gossip.NodeID, m Message) bool {
		return !slices.Contains(former, from) || !slices.Contains(former, to)
	}
	w.succeed(former[1])
	w.run(200 * time.Millisecond)
	w.block = nil
	w.settle(5 * time.Second)
	return w
}

// While the layout changes, a change must be kept by both: what the former holders
// alone have is gone as soon as the new ones count.
func TestBothLayoutsMustKeep(t *testing.T) { checkSound(t, newLayoutBehind()) }

func newLayoutBehind() *world {
	w, former := unannounced()
	o := w.owner()
	w.grow(former)
	w.run(100 * time.Millisecond)
	next := slices.Clone(o.next.Members)
	announces := w.block
	w.block = func(from, to gossip.NodeID, m Message) bool {
		_, write := m.(Write)
		return announces(from, to, m) || write && slices.Contains(next, to)
	}
	w.run(100 * time.Millisecond)
	w.block = func(_, to gossip.NodeID, m Message) bool {
		_, write := m.(Write)
		return write && slices.Contains(next, to)
	}
	w.run(100 * time.Millisecond)
	if i := slices.IndexFunc(next, func(id gossip.NodeID) bool { return id != former[0] }); i >= 0 {
		w.succeed(next[i])
	}
	w.block = nil
	w.settle(5 * time.Second)
	return w
}

func checkSound(t *testing.T, w *world) {
	t.Helper()
	if w.err != nil {
		t.Errorf("%v\n%s", w.err, w.tail())
	}
}

// All holders die together: the next owner finds nothing, and says so, since every
// member of the role knew that there was something.
func TestNothingLeftIsSaid(t *testing.T) {
	w := still()
	for range 3 {
		w.join()
	}
	w.settle(time.Second)
	w.remove(true, w.owner().layout.Members...)
	w.settle(5 * time.Second)
	if w.err != nil || w.shorts != 1 || w.losses != 1 {
		t.Errorf("%d starts were short, %d lost; %v\n%s", w.shorts, w.losses, w.err, w.tail())
	}
}

// A holder without room keeps nothing and says so; it is asked again, and takes the
// copy when there is room.
func TestFullHolder(t *testing.T) {
	w := still()
	o := w.owner()
	full := w.node(o.layout.Members[1])
	full.core.cfg.BytesMax = 1
	before := full.core.Bytes()
	n := w.node(w.shards[0].home)
	n.step(Changes{{Shard: 0, Token: o.token, ID: "big", Version: 1, State: make([]byte, 500)}})
	w.run(300 * time.Millisecond)
	if full.core.Bytes() > before {
		t.Errorf("a full holder went from %d to %d bytes", before, full.core.Bytes())
	}
	if e := o.entries["big"]; e.kept != 1 {
		t.Error("the other holder was not enough")
	}
	full.core.cfg.BytesMax = 1 << 20
	w.run(3 * time.Second)
	if full.core.holders[0].copies["big"].Tag.Version != 1 {
		t.Error("the holder did not get the copy when it had room")
	}
}

// The last write of a dead owner has reached one holder, whose answer its successor did not wait
// for. The successor writes the state that it has collected, which is older. The holder keeps the
// newer one: a later owner that collects both finds it.
func TestAHolderKeepsTheNewerState(t *testing.T) {
	if wrong := olderWriteAtHolder(); wrong != "" {
		t.Error(wrong)
	}
}

// olderWriteAtHolder returns what is wrong with a holder that receives an older state after a
// newer one.
func olderWriteAtHolder() string {
	c, out := New(Config{Self: 2, Type: "t"}), &Effects{}
	dead, heir, next := protocol.Token{Term: 1, Seq: 1}, protocol.Token{Term: 1, Seq: 2}, protocol.Token{Term: 1, Seq: 3}
	older := Copy{ID: "x", Tag: Tag{Token: dead, Version: 1}, State: []byte("older")}
	newer := Copy{ID: "x", Tag: Tag{Token: dead, Version: 2}, State: []byte("newer, and longer")}
	receive := func(m Message) {
		out.Reset()
		c.Step(1, Received{From: 1, Msg: m}, out)
	}
	receive(Write{Token: dead, Copies: []Copy{newer}})
	full := c.Bytes()
	receive(Write{Token: heir, Copies: []Copy{older}})
	if ack, is := out.Do[0].(Send).Msg.(Ack); !is || ack.Next != 1 || ack.Full {
		return fmt.Sprintf("the older state is answered with %+v", out.Do)
	}
	receive(Collect{Token: next})
	held, is := out.Do[0].(Send).Msg.(Held)
	if !is || len(held.Copies) != 1 || held.Copies[0].Tag != newer.Tag || c.Bytes() != full {
		return fmt.Sprintf("the holder has %+v, and counts %d bytes of %d", out.Do, c.Bytes(), full)
	}
	return ""
}

// Choose spreads shards evenly, moves few copies when a member comes, and keeps
// copies on different hosts while it can.
func TestChoose(t *testing.T) {
	v := &gossip.View{Epoch: 1}
	for i := range 6 {
		host := string(rune('a' + i/2))
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(i + 1), Addr: host + ":7000"}, Status: gossip.Up})
	}
	load := map[gossip.NodeID]int{}
	const shards = 1200
	before := map[int][]gossip.NodeID{}
	for s := range shards {
		got := Choose(v, "", "t", protocol.ShardID(s), 1, 3)
		hosts := map[string]bool{}
		for _, id := range got {
			hosts[v.Member(id).Addr] = true
			load[id]++
		}
		if len(got) != 3 || got[0] != 1 || len(hosts) != 3 {
			t.Fatalf("shard %d: %v on %d hosts", s, got, len(hosts))
		}
		before[s] = got
	}
	for id := gossip.NodeID(3); id <= 6; id++ {
		if load[id] < shards/2*8/10 || load[id] > shards/2*12/10 {
			t.Errorf("%v holds %d of %d", id, load[id], shards)
		}
	}
	v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: 9, Addr: "d:7000"}, Status: gossip.Up})
	moved := 0
	for s := range shards {
		for _, id := range Choose(v, "", "t", protocol.ShardID(s), 1, 3) {
			if !slices.Contains(before[s], id) {
				moved++
			}
		}
	}
	if moved > shards*2/4 {
		t.Errorf("%d of %d copies move when a member comes", moved, 2*shards)
	}
	if got := Choose(v, "", "t", 0, 1, ReplicasAll); len(got) != 7 {
		t.Errorf("all: %v", got)
	}
}

// A holder to which an older state is in flight lacks the newer one: it does not count as full
// when it has the older one.
func TestAnOlderStateInFlightFillsNoHolder(t *testing.T) {
	w := still()
	o, n := w.owner(), w.node(w.shards[0].home)
	holder := o.layout.Members[1]
	var sent Write
	w.block = func(_, to gossip.NodeID, m Message) bool {
		write, is := m.(Write)
		if is && to == holder {
			sent = write
		}
		return is && to == holder
	}
	for version := range uint64(2) {
		n.step(Changes{{Shard: 0, Token: o.token, ID: "x", Version: version + 1, State: []byte{1}}})
	}
	p := o.peers[holder]
	p.queueMissing(o)
	n.step(Received{From: holder, Msg: Ack{Shard: 0, Token: o.token, Stream: sent.Stream, Next: sent.Seq + 1}})
	if want, missing := p.missing["x"]; p.acked["x"].Version != 1 || !missing || want.Version != 2 {
		t.Errorf("the holder has version %d, and lacks %v", p.acked["x"].Version, p.missing)
	}
}
