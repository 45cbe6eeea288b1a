package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// mesh connects replicators in memory.
type mesh struct {
	mu    sync.Mutex
	nodes map[gossip.NodeID]*Replicator
	cut   map[gossip.NodeID]bool
}

// newMesh starts n replicators in one view. Frames wait until each has been given the view:
// one that came before would be of a node outside its receiver's view.
func newMesh(t *testing.T, n int, tweak func(*Config)) *mesh {
	m := &mesh{nodes: map[gossip.NodeID]*Replicator{}, cut: map[gossip.NodeID]bool{}}
	v := &gossip.View{Epoch: gossip.FirstEpoch(1)}
	for i := range n {
		id := gossip.NodeID(i + 1)
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id, Roles: []string{"r"}}, Status: gossip.Up})
		cfg := Config{Self: id, Role: "r", Send: func(to gossip.NodeID, _ transport.Class, frame []byte) error { return m.send(t, id, to, frame) }}
		if tweak != nil {
			tweak(&cfg)
		}
		m.nodes[id] = New(cfg)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.nodes {
		r.SetView(v)
		t.Cleanup(func() { r.Close() })
	}
	return m
}

func (m *mesh) send(t *testing.T, from, to gossip.NodeID, frame []byte) error {
	m.mu.Lock()
	r := m.nodes[to]
	lost := m.cut[from] || m.cut[to]
	m.mu.Unlock()
	role, payload, err := SplitRole(frame)
	if err != nil || role != "r" {
		t.Errorf("frame of role %q, %v", role, err)
	}
	if r == nil {
		return transport.ErrUnknownPeer
	}
	if !lost {
		r.HandleFrame(from, payload)
	}
	return nil
}

func (m *mesh) isolate(id gossip.NodeID, cut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut[id] = cut
}

func addTo(id gossip.NodeID, key, e string) operation.Op {
	return replication.Mutate(key, crdt.KindORSet, len(e)+24, func(v crdt.Value) crdt.Value {
		return v.(*crdt.ORSet[string]).Add(crdt.NodeID(id), e)
	})
}

func elements(v crdt.Value) []string {
	if v == nil {
		return nil
	}
	return slices.Sorted(slices.Values(v.(*crdt.ORSet[string]).Elements()))
}

func TestUpdateAndGetAtEveryLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		for i, level := range []replicator.Level{replicator.Local, replicator.To(2), replicator.Majority(0, 0), replicator.Majority(1, 2), replicator.All} {
			e := fmt.Sprint("e", i)
			if err := m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "k", e)}, level); err != nil {
				t.Fatalf("%v: %v", level, err)
			}
			vs, err := m.nodes[1].Get(t.Context(), []string{"k"}, level)
			if err != nil || !slices.Contains(elements(vs[0]), e) {
				t.Fatalf("%v: %v, %v", level, vs, err)
			}
		}
		vs, err := m.nodes[3].Get(t.Context(), []string{"k", "none"}, replicator.Majority(0, 0))
		if err != nil || len(elements(vs[0])) != 5 || vs[1] != nil {
			t.Errorf("%v, %v", vs, err)
		}
	})
}

func TestDeadlineOfTheContextIsTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		m.isolate(1, true)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := m.nodes[1].Update(ctx, []operation.Op{addTo(1, "k", "e")}, replicator.Majority(0, 0))
		var q *replicator.Error
		if !errors.As(err, &q) || q.Need != 2 || q.Got != 1 || !errors.Is(err, replicator.ErrOutcomeUnknown) {
			t.Errorf("err = %v", err)
		}
		if took := time.Since(start); took != 300*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestCancelReturnsAtOnceAndLeavesTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		m.isolate(1, true)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err := m.nodes[1].Update(ctx, []operation.Op{addTo(1, "k", "e")}, replicator.All)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, replicator.ErrOutcomeUnknown) {
			t.Errorf("err = %v", err)
		}
		if _, err := m.nodes[1].Get(ctx, []string{"k"}, replicator.Local); !errors.Is(err, context.Canceled) {
			t.Errorf("get with an ended context: %v", err)
		}
		synctest.Wait()
		if s := m.nodes[1].Stats(); s.Pending != 0 || s.Keys != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestFencedWriterGetsTheHigherTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		if _, err := m.nodes[2].Get(t.Context(), []string{"k"}, replicator.Majority(0, 0), replicator.WithFence(replicator.Fence{Group: "g", Term: 7})); err != nil {
			t.Fatal(err)
		}
		err := m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "k", "e")}, replicator.Majority(0, 0), replicator.WithFence(replicator.Fence{Group: "g", Term: 5}))
		var f *replicator.Error
		if !errors.As(err, &f) || f.Code != replicator.ErrFenced || f.Higher != 7 || f.Fence.Term != 5 || f.Fence.Group != "g" {
			t.Errorf("err = %v", err)
		}
	})
}

func TestSubscribersSeeTheCurrentValueThenCoalescedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, nil)
		must(t, m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "a/1", "x")}, replicator.All))
		var sizes []int
		var keys []string
		release := make(chan struct{})
		cancel := m.nodes[2].Subscribe("a/*", func(c operation.Change) {
			keys = append(keys, c.Key)
			sizes = append(sizes, len(elements(c.Value)))
			<-release
		})
		synctest.Wait()
		// The subscriber is stuck in the first value: nothing waits for it.
		for i := range 50 {
			must(t, m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "a/1", fmt.Sprint(i)), addTo(1, "b", "y")}, replicator.All))
		}
		close(release)
		synctest.Wait()
		if !slices.Equal(sizes, []int{1, 51}) || !slices.Equal(keys, []string{"a/1", "a/1"}) {
			t.Errorf("saw %v of %v", sizes, keys)
		}
		cancel()
		must(t, m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "a/2", "x")}, replicator.All))
		synctest.Wait()
		if len(keys) != 2 {
			t.Errorf("saw %v after the end", keys)
		}
	})
}

func TestSubscribersSeeNoStateAfterANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		last, calls := 0, 0
		m.nodes[3].Subscribe("k", func(c operation.Change) {
			n := len(elements(c.Value))
			if n < last {
				t.Errorf("%d elements after %d", n, last)
			}
			last, calls = n, calls+1
		})
		for i := range 100 {
			must(t, m.nodes[gossip.NodeID(i%3+1)].Update(t.Context(), []operation.Op{addTo(gossip.NodeID(i%3+1), "k", fmt.Sprint(i))}, replicator.Local))
			if i%10 == 0 {
				synctest.Wait()
			}
		}
		<-time.After(time.Second)
		synctest.Wait()
		if last != 100 || calls > 100 {
			t.Errorf("saw %d elements in %d calls", last, calls)
		}
	})
}

func TestPanicInAPlanIsTheCallersError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 1, nil)
		op := operation.Op{Key: "k", Kind: crdt.KindORSet, Plan: func(crdt.Value) (operation.Plan, error) { panic("oops") }}
		if err := m.nodes[1].Update(t.Context(), []operation.Op{op}, replicator.Local); !errors.Is(err, replicator.ErrPlan) {
			t.Errorf("err = %v", err)
		}
		must(t, m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "k", "e")}, replicator.Local))
	})
}

func TestCloseEndsRequestsSubscribersAndGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		m.isolate(1, true)
		r := m.nodes[1]
		r.Subscribe("*", func(operation.Change) {})
		r.Subscribe("k", func(operation.Change) {})
		got := make(chan error, 1)
		go func() { got <- r.Update(t.Context(), []operation.Op{addTo(1, "k", "e")}, replicator.All) }()
		synctest.Wait()
		must(t, r.Close())
		must(t, r.Close())
		if err := <-got; !errors.Is(err, replicator.ErrClosed) {
			t.Errorf("err = %v", err)
		}
		if err := r.Update(t.Context(), []operation.Op{addTo(1, "k", "e")}, replicator.Local); !errors.Is(err, replicator.ErrClosed) {
			t.Errorf("after close: %v", err)
		}
		if s := r.Stats(); s.Keys != 1 {
			t.Errorf("stats after close: %+v", s)
		}
		r.Subscribe("k", func(operation.Change) {})()
		r.HandleFrame(2, []byte("late"))
		r.SetView(nil)
	})
}

func TestObserverIsToldOfRequestsAndFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		sent := map[string]int{}
		m := newMesh(t, 2, func(c *Config) {
			if c.Self == 1 {
				c.Observer.Done = func(op, level, result string, took time.Duration) {
					done = append(done, op+" "+level+" "+result)
				}
				c.Observer.Sent = func(message string, bytes int, err error) { sent[message] += bytes }
			}
		})
		must(t, m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "k", "e")}, replicator.All))
		_, err := m.nodes[1].Get(t.Context(), []string{"k"}, replicator.To(3))
		if !errors.Is(err, replicator.ErrTooFewMembers) {
			t.Error(err)
		}
		synctest.Wait()
		if !slices.Equal(done, []string{"update all ok", "get to members"}) || sent["deltas"] == 0 || sent["status"] == 0 {
			t.Errorf("%q %v", done, sent)
		}
	})
}

func TestBadFramesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, nil)
		m.nodes[1].HandleFrame(2, []byte{255, 1, 2})
		m.nodes[1].HandleFrame(2, nil)
		m.nodes[1].HandleFrame(77, replication.Append(nil, &replication.RepairAck{}))
		if s := m.nodes[1].Stats(); s.FramesBad != 2 || s.ForeignFrames != 1 {
			t.Errorf("bad %d, foreign %d", s.FramesBad, s.ForeignFrames)
		}
		if _, _, err := SplitRole([]byte{200, 1}); !errors.Is(err, ErrFrame) {
			t.Error(err)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Forgetting is nothing that a subscriber sees; the end of an idle key is, once.
func TestSubscribersSeeNoForgettingAndOneExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, func(c *Config) {
			c.PruneEvery = 50 * time.Millisecond
			c.Expire = []replicator.Expiry{{Prefix: "tmp/", After: time.Second}}
		})
		var mu sync.Mutex
		seen := map[string][]int{}
		defer m.nodes[3].Subscribe("*", func(c operation.Change) {
			mu.Lock()
			defer mu.Unlock()
			seen[c.Key] = append(seen[c.Key], len(elements(c.Value)))
		})()
		for _, op := range []operation.Op{addTo(1, "tmp/a", "e"), addTo(1, "b", "e"), addTo(1, "b", "f"), {Key: "b", Delete: true}, addTo(1, "b", "g")} {
			if err := m.nodes[1].Update(t.Context(), []operation.Op{op}, replicator.All); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(seen["b"], []int{1, 2, 0, 1}) || !slices.Equal(seen["tmp/a"], []int{1, 0}) {
			t.Errorf("%v", seen)
		}
		if s := m.nodes[3].Stats(); s.Rounds == 0 || s.Tombstones != 0 || s.Keys != 1 {
			t.Errorf("%d rounds, %d tombstones, %d keys", s.Rounds, s.Tombstones, s.Keys)
		}
	})
}

// Requests wait for the lease, and go on as soon as the shell hears that it is back.
func TestRequestsOfTheShellWaitForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var valid atomic.Bool
		m := newMesh(t, 3, func(c *Config) {
			if c.Self == 1 {
				c.LeaseValid = valid.Load
			}
		})
		one := m.nodes[1]
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := one.Get(ctx, []string{"k"}, replicator.Majority(0, 0)); !errors.Is(err, replicator.ErrNoLease) {
			t.Errorf("read without a lease: %v", err)
		}
		if err := one.Update(t.Context(), []operation.Op{addTo(1, "k", "here")}, replicator.Local); err != nil {
			t.Error(err)
		}
		start, done := time.Now(), make(chan error, 1)
		go func() {
			done <- one.Update(t.Context(), []operation.Op{addTo(1, "k", "e")}, replicator.Majority(0, 0))
		}()
		<-time.After(time.Second + time.Millisecond)
		valid.Store(true)
		one.LeaseRegained()
		if err := <-done; err != nil || time.Since(start) != time.Second+time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if s := one.Stats(); s.LeaseErrors != 1 || s.Pending != 0 {
			t.Errorf("%d without a lease, %d pending", s.LeaseErrors, s.Pending)
		}
	})
}

// Who has gone is not called back: what its function writes is no longer there for it.
func TestCallerThatHasGoneIsNotCalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Self: 1, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
		defer r.Close()
		release := make(chan struct{})
		go func() { _ = r.call(t.Context(), func() { <-release }) }() // the replicator hangs
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ran := false
		if err := r.View(ctx, "k", func(crdt.Value) { ran = true }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		keys, err := r.Keys(ctx, "")
		_, peers, serr := r.Status(ctx)
		close(release)
		synctest.Wait()
		if ran || keys != nil || err == nil || peers != nil || serr == nil {
			t.Errorf("called after it had returned: %t, %v %v, %v %v", ran, keys, err, peers, serr)
		}
	})
}

// An update of several keys that one of its plans refuses keeps no snapshot: the next change
// of the other keys is made in place, and not on a copy of the value.
func TestRefusedUpdateKeepsNoSnapshot(t *testing.T) {
	r := New(Config{Self: 1, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
	defer r.Close()
	must(t, r.Update(t.Context(), []operation.Op{addTo(1, "k", "e")}, replicator.Local))
	bad := operation.Op{Key: "other", Kind: crdt.KindORSet, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{}, errors.New("no")
	}}
	if err := r.Update(t.Context(), []operation.Op{addTo(1, "k", "f"), bad}, replicator.Local); !errors.Is(err, replicator.ErrPlan) {
		t.Fatal(err)
	}
	value := func() (v crdt.Value) {
		must(t, r.View(t.Context(), "k", func(now crdt.Value) { v = now }))
		return v
	}
	before := value()
	must(t, r.Update(t.Context(), []operation.Op{addTo(1, "k", "g")}, replicator.Local))
	if after := value(); after != before {
		t.Error("the value was copied for a snapshot of the update that failed")
	}
}
