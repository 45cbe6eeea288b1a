package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// world is three hosts, all members of one view, with a process and its replicators each.
type world struct {
	run     *run.Run
	net     *network.Network
	storage *Storage
	view    *gossip.View
	nodes   []*host
	// incarnations counts the processes that were started.
	incarnations int
}

// host is one process, and the receiver of its frames.
type host struct {
	p     *process.Process
	node  *Node
	lease bool
}

func (h *host) Receive(from gossip.NodeID, f network.Frame) { h.node.Receive(from, f.Msg.(Message)) }

func (h *host) PeerEvent(typ transport.PeerEventType, _ transport.Class, id, _ gossip.NodeID) {
	switch typ {
	case transport.Connected:
		h.node.PeerChanged(id, true)
	case transport.Lost:
		h.node.PeerChanged(id, false)
	}
}

func (w *world) Newest() *gossip.View { return w.view }

func (w *world) Present(id gossip.NodeID) bool { return w.view.Member(id) != nil }

func (w *world) Current(id gossip.NodeID) (*gossip.View, bool) { return w.view, w.Present(id) }

func (w *world) PresentBeside(id, _ gossip.NodeID) bool { return w.Present(id) }

func (w *world) LabelAt(slot int) string { return string(rune('a' + slot)) }

const hosts = 3

func newWorld(t *testing.T, change func(*seed.Config)) *world {
	t.Helper()
	r := run.New(&seed.Options{Nodes: hosts})
	r.Config = seed.Config{
		Nodes: hosts, Duration: 10 * time.Second, Ping: 100 * time.Millisecond, LatencyMax: time.Millisecond, Spike: time.Millisecond,
		QueueFramesMax: 1000, LogEntries: 100, DriftPPM: 1000, Roles: []string{""}, HostRoles: make([]int, hosts), DiskEvery: time.Second,
	}
	if change != nil {
		change(&r.Config)
	}
	w := &world{run: r, net: network.New(r, func(int, int) bool { return false }), nodes: make([]*host, hosts)}
	w.storage = NewStorage(r, w)
	for slot := range hosts {
		w.start(slot)
	}
	w.install()
	return w
}

// start starts a process on a host, a later incarnation of the one before.
func (w *world) start(slot int) {
	w.incarnations++
	id, r := gossip.NodeID(w.incarnations), w.run
	h := &host{lease: true}
	h.p = &process.Process{Run: r, Slot: slot, Label: w.LabelAt(slot), Node: gossip.Node{ID: id}, Number: uint64(slot + 1), Incarnation: uint64(id), Thread: virtual.NewThread(&r.Time)}
	h.p.Net = w.net.Attach(network.Identity{Slot: slot, Node: id, Label: h.p.Label, Process: h.p.Number, Incarnation: h.p.Incarnation}, h.p.Thread, h)
	h.node = w.storage.Start(h.p, func() bool { return h.lease })
	w.nodes[slot] = h
}

// install gives the processes of some hosts, or of all, a view of which they are the members.
func (w *world) install(slots ...int) {
	if len(slots) == 0 {
		slots = slices.Sorted(maps.Keys(w.all()))
	}
	v := &gossip.View{Cluster: 1, Origin: 1, Epoch: gossip.FirstEpoch(1)}
	if w.view != nil {
		v.Epoch = w.view.Epoch + 1
	}
	for _, slot := range slots {
		v.Members = append(v.Members, gossip.Member{Node: w.nodes[slot].p.Node, Status: gossip.Up})
	}
	w.view = v
	for _, slot := range slots {
		w.nodes[slot].node.ViewChanged(v)
	}
}

// kill ends the process of a host as a crash does.
func (w *world) kill(slot int) {
	h := w.nodes[slot]
	h.node.Stop()
	h.p.Thread.End()
	h.p.Net.Detach()
}

func (w *world) all() map[int]bool { return map[int]bool{0: true, 1: true, 2: true} }

func (w *world) play(d time.Duration) { w.run.Until(w.run.Now().Add(d)) }

// write adds a word at a majority by a host, and returns the outcome once there is one.
func (w *world) write(t *testing.T, slot int, word string) error {
	t.Helper()
	h := w.nodes[slot]
	d, answered := h.node.Store(0), false
	var outcome error
	op := replication.Mutate(keyWords, crdt.KindORSet, 64, func(v crdt.Value) crdt.Value {
		return v.(*crdt.ORSet[string]).Add(crdt.NodeID(h.p.Node.ID), word)
	})
	d.Update(replication.Update{Ops: []operation.Op{op}, Level: d.WriteLevel(), Deadline: d.Deadline()}, func(a replication.Reply) {
		answered, outcome = true, a.Err
		if a.Err == nil {
			d.checkMajority()
			w.storage.words[0].Acked(word, w.view, voters(w.view, d.role))
		}
	})
	if !w.run.UntilTrue(2*Timeout, 10*time.Millisecond, func() bool { return answered }) {
		t.Fatalf("the write of %q has no outcome %v after its deadline", word, Timeout)
	}
	return outcome
}

// writeLocal writes a durable scratch key on a host.
func (w *world) writeLocal(t *testing.T, slot int, key string, remove bool) error {
	t.Helper()
	d, answered := w.nodes[slot].node.Store(0), false
	var outcome error
	op := replication.Mutate(key, crdt.KindGCounter, 32, func(v crdt.Value) crdt.Value {
		return v.(*crdt.GCounter).Add(crdt.NodeID(d.p.Node.ID), 1)
	})
	op.Delete = remove
	d.Update(replication.Update{Ops: []operation.Op{op}, Level: replicator.Local}, func(a replication.Reply) { answered, outcome = true, a.Err })
	if !answered {
		t.Fatalf("the local write of %q has no outcome in its step", key)
	}
	return outcome
}

// failure returns what stopped the run, "" if nothing did.
func failure(do func()) (what string) {
	defer func() {
		if f, failed := recover().(run.Failure); failed {
			what = f.What
		}
	}()
	do()
	return ""
}

func TestWordsReachAllReplicas(t *testing.T) {
	w := newWorld(t, nil)
	for slot := range hosts {
		if err := w.write(t, slot, fmt.Sprint("word ", slot)); err != nil {
			t.Fatal(err)
		}
	}
	w.storage.CheckLiveness(w.all())
	for _, h := range w.nodes {
		has := h.node.Store(0).heldWords()
		for slot := range hosts {
			if word := fmt.Sprint("word ", slot); !has(word) {
				t.Errorf("%s lacks %q", h.p.Label, word)
			}
		}
	}
}

func TestReplicasThatStayApartFailTheRun(t *testing.T) {
	w := newWorld(t, nil)
	w.play(5 * time.Second) // until each has filled itself from the others
	w.net.CutOff(map[int]bool{2: true}, network.Drop, false)
	if err := w.write(t, 0, "word"); err != nil {
		t.Fatal(err)
	}
	if what := failure(func() { w.storage.CheckLiveness(w.all()) }); !strings.HasPrefix(what, "L2") {
		t.Errorf("replicas differ, and the run stops with %q", what)
	}
	if what := failure(func() { w.storage.CheckLiveness(map[int]bool{0: true, 1: true}) }); what != "" {
		t.Errorf("the two that are connected are equal, and the run stops with %q", what)
	}
}

func TestAMinorityWithoutALeaseWritesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.net.CutOff(map[int]bool{0: true}, network.Drop, false)
	if err := w.write(t, 0, "alone"); !errors.Is(err, replicator.ErrOutcomeUnknown) {
		t.Errorf("a write by one of three that are apart: %v", err)
	}
	w.net.OpenAll()
	w.play(10 * time.Second)
	w.nodes[0].lease = false
	if err := w.write(t, 0, "no lease"); err == nil {
		t.Error("a write at a majority succeeds without a lease")
	}
	w.nodes[0].lease = true
	w.nodes[0].node.LeaseRegained()
	if err := w.write(t, 0, "lease"); err != nil {
		t.Errorf("a write with a lease: %v", err)
	}
}

func TestAMajorityOfARemovedNodeFailsTheRun(t *testing.T) {
	w := newWorld(t, nil)
	full := w.view
	w.view = &gossip.View{Cluster: 1, Epoch: full.Epoch + 1, Members: full.Members[1:]}
	if what := failure(func() { w.write(t, 0, "removed") }); !strings.HasPrefix(what, "S4: a majority at a") {
		t.Errorf("a removed node had a majority, and the run stops with %q", what)
	}
}

// keepsDisks is a run whose words are durable.
func keepsDisks(c *seed.Config) { c.Disks = true }

func TestAcknowledgedWordsSurviveACrashOfAllHosts(t *testing.T) {
	w := newWorld(t, keepsDisks)
	if err := w.write(t, 0, "kept"); err != nil {
		t.Fatal(err)
	}
	w.play(time.Second)
	for slot := range hosts {
		w.kill(slot)
	}
	for slot := range hosts {
		w.start(slot)
	}
	w.install()
	w.storage.CheckLiveness(w.all())
	counts := w.run.Coverage.Counts()
	if counts[coverage.Restored.String()] == 0 || counts[coverage.WordsKept.String()] == 0 {
		t.Errorf("no file was read, or the words were not checked: %v", counts)
	}
	w.storage.words[0].Acked("never written", nil, []gossip.NodeID{1, 2, 3})
	if what := failure(func() { w.storage.CheckLiveness(w.all()) }); !strings.Contains(what, "never written") {
		t.Errorf("an acknowledged word is missing, and the run stops with %q", what)
	}
}

// stored reports whether the disk of a host has words.
func (w *world) stored(slot int) bool {
	_, has := w.storage.Disks.hosts[slot].files[0].items[keyWords]
	return has
}

// A host that finds its disk full counts only the other disks for the write at hand. It refuses
// later words until the disk works again.
func TestAHostWhoseDiskFailsRefusesWords(t *testing.T) {
	w := newWorld(t, keepsDisks)
	w.storage.Disks.setFailing(0, true)
	if err := w.write(t, 0, "first"); err != nil || w.stored(0) || !w.stored(1) || !w.stored(2) {
		t.Errorf("the write that finds the disk full is stored at %v, %v and %v: %v", w.stored(0), w.stored(1), w.stored(2), err)
	}
	if err := w.write(t, 0, "second"); !errors.Is(err, errDisk) {
		t.Errorf("a later write on a full disk: %v", err)
	}
	if err := w.write(t, 1, "elsewhere"); err != nil {
		t.Errorf("two of three disks take a word: %v", err)
	}
	w.storage.Disks.setFailing(0, false)
	w.play(2 * retryEvery)
	if err := w.write(t, 0, "third"); err != nil || !w.stored(0) {
		t.Errorf("a write after the disk works again is stored %v: %v", w.stored(0), err)
	}
	w.storage.CheckLiveness(w.all())
	if w.run.Coverage.Counts()[coverage.DiskFails.String()] != 1 {
		t.Errorf("one failure of a disk is counted as %v", w.run.Coverage.Counts())
	}
}

func TestDisksFailUntilTheFaultsEnd(t *testing.T) {
	w := newWorld(t, keepsDisks)
	w.storage.Disks.PlanFailures()
	w.play(30 * time.Second)
	planned := w.run.Coverage.Counts()[coverage.DiskFails.String()]
	if planned < 3 {
		t.Errorf("disks failed %d times in 30 s", planned)
	}
	w.run.Calm = true
	w.play(time.Minute)
	if n := w.run.Coverage.Counts()[coverage.DiskFails.String()]; n != planned {
		t.Errorf("disks failed %d times after the faults had ended", n-planned)
	}
	w.storage.Disks.setFailing(1, true)
	for range 100 { // in half of the runs those that fail go on failing
		w.storage.Disks.EndFailures()
	}
	for slot, d := range w.storage.Disks.hosts {
		if d.fails {
			t.Errorf("the disk of host %d still fails", slot)
		}
	}
}

func TestClocksJumpByUpToAnHourUntilTheFaultsEnd(t *testing.T) {
	w := newWorld(t, func(c *seed.Config) { c.Clocks = true })
	c := &w.storage.Clocks
	right := c.show(0)
	c.PlanJumps()
	var most time.Duration
	w.run.UntilTrue(w.run.Config.Duration*jumpsMax, 100*time.Millisecond, func() bool {
		for _, ahead := range c.ahead {
			most = max(most, ahead.Abs())
		}
		return false
	})
	if n := w.run.Coverage.Counts()[coverage.ClockJump.String()]; n != jumpsMax || most < time.Minute || most > time.Hour {
		t.Errorf("clocks jumped %d times, by at most %v; want %d times, by up to an hour", n, most, jumpsMax)
	}
	c.SetRight()
	if want := right + uint64(time.Duration(w.run.Now()).Milliseconds()); c.show(0) != want || c.show(2) != want {
		t.Errorf("right clocks show %d and %d, want %d", c.show(0), c.show(2), want)
	}
}

func TestTheRegisterIsWrittenDespiteClocksThatJumped(t *testing.T) {
	w := newWorld(t, func(c *seed.Config) { c.Clocks = true })
	w.storage.Clocks.ahead[0] = time.Hour
	for slot := range hosts {
		var outcome error
		answered := false
		w.nodes[slot].node.register.writeValue(func(err error) { answered, outcome = true, err })
		if !w.run.UntilTrue(2*Timeout, 10*time.Millisecond, func() bool { return answered }) || outcome != nil {
			t.Fatalf("host %d writes the register: %v", slot, outcome)
		}
	}
	w.nodes[0].node.register.readValue()
	w.play(time.Second)
	if w.run.Coverage.Counts()[coverage.RegisterRead.String()] != 1 {
		t.Error("the read of the register was not checked")
	}
	// A word that is acknowledged later than what stands must not be missed by a read.
	w.storage.register.begun["newer"] = w.run.Now()
	w.storage.register.checker.Acked("newer", nil, []gossip.NodeID{1, 2, 3})
	w.nodes[1].node.register.readValue()
	if what := failure(func() { w.play(time.Second) }); !strings.HasPrefix(what, "S4") {
		t.Errorf("a read misses an acknowledged write, and the run stops with %q", what)
	}
}

// TestARegisterWithoutFurtherErasIsExcused: a key has eight eras. In the last one, a host whose
// clock is behind cannot write it (GUARANTEES.md, G7).
func TestARegisterWithoutFurtherErasIsExcused(t *testing.T) {
	w := newWorld(t, func(c *seed.Config) { c.Clocks = true })
	w.play(time.Second)
	for write := range 9 {
		if w.storage.register.exhausted != (write == 8) {
			t.Fatalf("after %d writes, each with clocks an hour behind the last: exhausted %v", write, w.storage.register.exhausted)
		}
		for slot := range hosts {
			w.storage.Clocks.ahead[slot] = -time.Duration(write) * time.Hour
		}
		w.play(time.Second) // each learns of the others' clocks
		answered := false
		w.nodes[0].node.register.writeValue(func(error) { answered = true })
		if !w.run.UntilTrue(2*Timeout, 10*time.Millisecond, func() bool { return answered }) {
			t.Fatalf("write %d has no answer", write)
		}
	}
	if what := failure(func() { w.storage.CheckLiveness(w.all()) }); what != "" {
		t.Errorf("the run stops with %q", what)
	}
	w.storage.register.exhausted = false
	if what := failure(func() { w.storage.CheckLiveness(w.all()) }); !strings.HasPrefix(what, "L2") {
		t.Errorf("with eras to come, a register that cannot be written stops the run with %q", what)
	}
}

// The same seed gives the same trace: the drivers read no clock and no order of a map.
func TestRunsOfOneSeedAreEqual(t *testing.T) {
	var hashes []uint64
	for range 2 {
		w := newWorld(t, func(c *seed.Config) { c.Disks, c.Clocks, c.ClientWrites = true, true, true })
		w.run.Trace = trace.New(nil, 0)
		w.storage.Disks.PlanFailures()
		w.storage.Clocks.PlanJumps()
		for _, h := range w.nodes {
			h.node.StartClients()
		}
		w.play(10 * time.Second)
		if w.run.Trace.Events() < 1000 {
			t.Fatalf("only %d events happened", w.run.Trace.Events())
		}
		hashes = append(hashes, w.run.Trace.Hash())
	}
	if len(slices.Compact(hashes)) != 1 {
		t.Errorf("two runs of one seed have the traces %x", hashes)
	}
}

// What an op does to a value it returns as its delta: replicas would differ by anything else.
func TestARemovalReturnsWhatItChanges(t *testing.T) {
	empty := func() *crdt.ORSet[string] {
		v, err := crdt.New(crdt.KindORSet)
		if err != nil {
			t.Fatal(err)
		}
		return v.(*crdt.ORSet[string])
	}
	with, without := empty(), empty()
	with.Add(1, "a")
	for name, c := range map[string]struct{ planned, applied *crdt.ORSet[string] }{
		"the element is there":     {with.Clone().(*crdt.ORSet[string]), with.Clone().(*crdt.ORSet[string])},
		"it was added meanwhile":   {without, with.Clone().(*crdt.ORSet[string])},
		"it was removed meanwhile": {with, without},
	} {
		p, err := removal("k", "a").Plan(c.planned)
		if err != nil {
			t.Fatal(err)
		}
		before := c.applied.Digest()
		if delta := p.Apply(c.applied); (delta != nil) != (c.applied.Digest() != before) {
			t.Errorf("%s: the delta is %v, changed: %v", name, delta, c.applied.Digest() != before)
		}
	}
}

// TestAWriteMayLoseToWhatItsVoterRefused checks when the register's checker lets a write lose to an
// earlier one: only if a voter had refused the earlier one's writer before the write was acknowledged.
func TestAWriteMayLoseToWhatItsVoterRefused(t *testing.T) {
	reg := newRegister()
	reg.acked["c/2"], reg.voters["c/2"] = 50, []gossip.NodeID{3}
	reg.acked["c/1"], reg.voters["c/1"] = 10, []gossip.NodeID{3}
	reg.noteRefused(3, "d", 20)
	reg.noteRefused(3, "d", 60)
	reg.noteRefused(4, "e", 20)
	for _, c := range []struct {
		word, earlier string
		want          bool
	}{
		{"c/2", "d/7", true},
		{"c/1", "d/7", false}, // refused later
		{"c/2", "dd/7", false},
		{"c/2", "e/7", false}, // refused by another node
		{"x/1", "d/7", false},
	} {
		if got := reg.mayLoseTo(c.word, c.earlier); got != c.want {
			t.Errorf("%s may lose to %s: %v", c.word, c.earlier, got)
		}
	}
}
