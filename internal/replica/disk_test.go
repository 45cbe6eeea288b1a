package replica

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// hangs stops the answers of the disk of a file until the returned function is called.
func hangs(t *testing.T, r *Replicator, d *Durable) (answer func()) {
	t.Helper()
	ch := make(chan struct{})
	if err := r.call(t.Context(), func() { d.hang = ch }); err != nil {
		t.Fatal(err)
	}
	return func() { close(ch) }
}

func addWithin(t *testing.T, r *Replicator, key, e string, level replicator.Level, within time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return r.Update(ctx, []operation.Op{addTo(r.Self(), key, e)}, level)
}

// diskMesh is a mesh of three in which node 1 has a file of durable keys.
func diskMesh(t *testing.T, d *Durable) *mesh {
	return newMesh(t, 3, func(c *Config) {
		if c.Self == 1 {
			c.Durable = d
		}
	})
}

// settle waits until each node has caught up with the view.
func (m *mesh) settle(t *testing.T) {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; <-time.After(100 * time.Millisecond) {
		synctest.Wait()
		unsettled := 0
		for _, r := range m.nodes {
			if !r.Stats().Settled {
				unsettled++
			}
		}
		if unsettled == 0 {
			return
		}
	}
	t.Fatal("the view is not settled")
}

// othersGoOn checks that, while the disk of node 1 does not answer, all goes on that does
// not need it.
func othersGoOn(t *testing.T, nodes map[gossip.NodeID]*Replicator) {
	t.Helper()
	const soon = 100 * time.Millisecond
	one, two := nodes[1], nodes[2]
	for _, level := range []replicator.Level{replicator.Local, replicator.Majority(0, 0), replicator.All} {
		for _, r := range []*Replicator{one, two} {
			if err := addWithin(t, r, "memory", level.String(), level, soon); err != nil {
				t.Errorf("a memory key at node %v, %v: %v", r.Self(), level, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		if vs, err := one.Get(ctx, []string{"memory"}, level); err != nil || !slices.Contains(elements(vs[0]), level.String()) {
			t.Errorf("a read of a memory key, %v: %v", level, err)
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := one.Get(ctx, []string{"keep/k"}, replicator.Local); err != nil {
		t.Errorf("a read of a durable key at Local: %v", err)
	}
	if err := addWithin(t, two, "keep/other", "theirs", replicator.Majority(0, 0), soon); err != nil {
		t.Errorf("a durable key at a majority without that disk: %v", err)
	}
	if err := addWithin(t, two, "keep/other", "all", replicator.All, soon); !errors.Is(err, replicator.ErrOutcomeUnknown) {
		t.Errorf("confirmed by a node that has not stored it: %v", err)
	}
}

// A disk that does not answer holds up what needs it, for a while, and nothing else.
func TestDiskThatHangsHoldsUpOnlyWhatNeedsIt(t *testing.T) {
	d := openDurable(t, filepath.Join(t.TempDir(), "file"), 0)
	synctest.Test(t, func(t *testing.T) {
		m := diskMesh(t, d)
		m.settle(t)
		one := m.nodes[1]
		for _, level := range []replicator.Level{replicator.Local, replicator.Majority(0, 0)} {
			answer := hangs(t, one, d)
			start, done := time.Now(), make(chan error, 1)
			go func() { done <- addWithin(t, one, "keep/k", "slow at "+level.String(), level, 10*time.Second) }()
			synctest.Wait()
			othersGoOn(t, m.nodes)
			<-time.After(time.Second - time.Since(start))
			answer()
			if err := <-done; err != nil || time.Since(start) < time.Second {
				t.Errorf("%v: after %v: %v", level, time.Since(start), err)
			}
		}
		answer := hangs(t, one, d)
		start := time.Now()
		if err := addWithin(t, one, "keep/k", "hung", replicator.Local, 10*time.Second); !errors.Is(err, replicator.ErrDurable) || !errors.Is(err, replicator.ErrOutcomeUnknown) || time.Since(start) > 2*diskHangMax {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		othersGoOn(t, m.nodes)
		if err := addWithin(t, one, "keep/k", "refused", replicator.Majority(0, 0), time.Second); !errors.Is(err, replicator.ErrDurable) || errors.Is(err, replicator.ErrOutcomeUnknown) {
			t.Errorf("while it hangs: %v", err)
		}
		if vs, err := one.Get(t.Context(), []string{"keep/k"}, replicator.Majority(0, 0)); err != nil || slices.Contains(elements(vs[0]), "refused") {
			t.Errorf("a read of a durable key: %v %v", vs, err)
		}
		if !one.DiskFailing() {
			t.Error("not reported")
		}
		answer()
		synctest.Wait()
		if err := addWithin(t, one, "keep/k", "again", replicator.All, time.Second); err != nil || one.DiskFailing() {
			t.Errorf("after it answered: %v", err)
		}
	})
	// What was confirmed stands in the file.
	kept := map[string]bool{}
	if err := d.readRecords(func(it replication.Item) error { kept[it.Key] = true; return nil }); err != nil || !kept["keep/k"] || !kept["keep/other"] || kept["memory"] {
		t.Errorf("%v %v", kept, err)
	}
}

// A replicator whose disk does not answer can be closed.
func TestReplicatorOfADiskThatHangsCloses(t *testing.T) {
	d := openDurable(t, filepath.Join(t.TempDir(), "file"), 0)
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 1, func(c *Config) { c.Durable = d })
		answer, done := hangs(t, m.nodes[1], d), make(chan error, 1)
		defer answer()
		go func() { done <- addWithin(t, m.nodes[1], "keep/k", "e", replicator.Local, time.Minute) }()
		synctest.Wait()
		start := time.Now()
		m.nodes[1].Close()
		if took := time.Since(start); took > 2*diskHangMax {
			t.Errorf("closed after %v", took)
		}
		if err := <-done; err == nil {
			t.Error("confirmed")
		}
	})
}

// An update that changes durable keys and others is refused.
func TestDurableAndOtherKeysAreNotMixed(t *testing.T) {
	d := openDurable(t, filepath.Join(t.TempDir(), "file"), 0)
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 1, func(c *Config) { c.Durable = d })
		var mixed *replicator.Error
		err := m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "memory", "e"), addTo(1, "keep/k", "e")}, replicator.Local)
		if !errors.As(err, &mixed) || mixed.Code != replicator.ErrMixed || mixed.Key != "keep/k" || mixed.OtherKey != "memory" {
			t.Errorf("%v", err)
		}
		if keys, _ := m.nodes[1].Keys(t.Context(), ""); len(keys) > 0 {
			t.Errorf("%v", keys)
		}
	})
}
