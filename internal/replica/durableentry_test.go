package replica

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

type textMap = crdt.LWWMap[string, string]

func entryOp(apply func(*textMap) *textMap) operation.Op {
	return replication.Mutate("keep/m", crdt.KindLWWMap, 64, func(v crdt.Value) crdt.Value { return apply(v.(*textMap)) })
}

// An entry of a durable map that is deleted is remembered for Retain of running, restarts
// included, and then neither replicas nor files have anything of it.
func TestEndOfADurableEntryIsForgottenAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := func(c *Config, d *DurableConfig) {
			c.GossipEvery, c.PruneEvery, d.Retain = 20*time.Second, time.Minute, time.Hour
		}
		life := func(d time.Duration, tombstones int, ids ...gossip.NodeID) {
			t.Helper()
			m, stop := durableClusterWith(t, dir, 0, cfg, ids...)
			defer stop()
			if ids[0] == 1 {
				for _, op := range []operation.Op{
					entryOp(func(m *textMap) *textMap { return m.Set("a", "e", crdt.Stamp{Time: 7, Node: 1}) }),
					entryOp(func(m *textMap) *textMap { return m.Set("b", "e", crdt.Stamp{Time: 8, Node: 1}) }),
					entryOp(func(m *textMap) *textMap { return m.Delete("a", crdt.Stamp{Time: 9, Node: 1}) }),
				} {
					if err := m.nodes[1].Update(t.Context(), []operation.Op{op}, replicator.All); err != nil {
						t.Fatal(err)
					}
				}
			}
			<-time.After(d)
			for id, r := range m.nodes {
				vs, err := r.Get(t.Context(), []string{"keep/m"}, replicator.Local)
				if err != nil {
					t.Fatal(err)
				}
				if m := vs[0].(*textMap); m.Tombstones() != tombstones || m.Len() != 1 {
					t.Errorf("node %d: %d entries, %d tombstones, not %d", id, m.Len(), m.Tombstones(), tombstones)
				}
				if s := r.Stats(); s.DurableErrors > 0 || s.SetAside > 0 {
					t.Errorf("node %d: %d errors, %d set aside", id, s.DurableErrors, s.SetAside)
				}
			}
		}
		life(25*time.Minute, 1, 1, 2, 3)
		<-time.After(100 * time.Hour)
		life(25*time.Minute, 1, 11, 12, 13)
		life(25*time.Minute, 0, 21, 22, 23)
		life(time.Second, 0, 31, 32, 33)
		for i := range 3 {
			d := openDurable(t, filepath.Join(dir, fmt.Sprint("file", i)), 0)
			if err := d.readRecords(func(r replication.Item) error {
				v, err := crdt.Decode(r.Kind, r.Bytes)
				if m := v.(*textMap); m.Tombstones() != 0 {
					t.Errorf("file %d has %d tombstones", i, m.Tombstones())
				}
				return err
			}); err != nil {
				t.Error(err)
			}
			if m, err := d.memory(); err != nil || m.MaxForgottenStamp != 9 || len(m.Agreed) != 0 {
				t.Errorf("file %d: %+v, %v", i, m, err)
			}
			d.Close()
		}
	})
}

// A file that is set aside leaves neither a header nor agreed deletions; a damaged record is
// an error.
func TestAgesInFiles(t *testing.T) {
	d := openDurable(t, filepath.Join(t.TempDir(), "file"), 0)
	defer d.Close()
	v := &textMap{}
	v.Delete("a", crdt.Stamp{Time: 1})
	it := replication.Item{Key: "keep/m", Kind: crdt.KindLWWMap, Bytes: v.Append(nil)}
	if err := d.writeBatch(testMemory, []replication.Item{it}); err != nil {
		t.Fatal(err)
	}
	path, err := d.setAside(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if m, err := d.memory(); err != nil || !reflect.DeepEqual(m, replication.Memory{}) {
		t.Errorf("%+v is left, %v", m, err)
	}
	aside := openDurable(t, path, 0)
	defer aside.Close()
	if m, err := aside.memory(); err != nil || !reflect.DeepEqual(m, testMemory) {
		t.Errorf("the copy has %+v, %v", m, err)
	}
	whole := appendRecord(nil, &it)
	for _, b := range [][]byte{nil, whole, sealed("keep/n", whole), sealed("keep/m", whole[:1]), sealed("keep/m", whole[:len(whole)-1]), sealed("keep/m", []byte{1, 0, 9})} {
		if got, err := readRecord("keep/m", b); err == nil {
			t.Errorf("%q is read as %+v", b, got)
		}
	}
}

// What is not on the disk is not confirmed to another replica either; it is as soon as it
// is there.
func TestNothingIsConfirmedToOthersThatCannotBeStored(t *testing.T) {
	for _, broken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := openDurable(t, filepath.Join(t.TempDir(), "file"), 0)
			defer d.Close()
			acks := 0
			r := New(Config{Self: 1, Durable: d, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil },
				Observer: figures.ReplicatorObserver{Sent: func(message string, _ int, _ error) {
					if message == "ack" {
						acks++
					}
				}}})
			defer r.Close()
			r.SetView(&gossip.View{Epoch: gossip.FirstEpoch(1), Members: []gossip.Member{
				{Node: gossip.Node{ID: 1}, Status: gossip.Up}, {Node: gossip.Node{ID: 2}, Status: gossip.Up}}})
			synctest.Wait()
			if broken {
				d.Close()
			}
			s := &crdt.ORSet[string]{}
			s.Add(2, "e")
			r.HandleFrame(2, replication.Append(nil, &replication.Deltas{Epoch: gossip.FirstEpoch(1), From: 1,
				Entries: []*replication.Entry{{Items: []replication.Item{{Key: "keep/k", Kind: crdt.KindORSet, Bytes: s.Append(nil)}}}}}))
			synctest.Wait()
			if want := map[bool]int{false: 1}[broken]; acks != want {
				t.Errorf("broken %t: %d answers, not %d", broken, acks, want)
			}
			if s := r.Stats(); s.DurableErrors > 0 != broken {
				t.Errorf("%d errors", s.DurableErrors)
			}
		})
	}
}

// Prefixes select keys, Except takes some of them out again.
func TestExceptedKeysAreNotKept(t *testing.T) {
	d := Durable{cfg: DurableConfig{Prefixes: []string{"a/", "b/"}, Except: []string{"a/not/"}}}
	for key, want := range map[string]bool{"a/x": true, "b/": true, "c": false, "a/not/x": false, "a/not": true, "a": false, "": false} {
		if got := d.isDurable(key); got != want {
			t.Errorf("%q: %t", key, got)
		}
	}
}

// All clocks are set back by days over a restart. What was written before can be written
// over, and the next restart keeps that, and the era.
func TestErasOutliveRestarts(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		wall := func(back time.Duration) func() time.Time {
			return func() time.Time { return time.Now().AddDate(10, 0, 0).Add(-back) }
		}
		life := func(first gossip.NodeID, back time.Duration, entry, had string, eras uint64) {
			t.Helper()
			cfg := func(c *Config, _ *DurableConfig) { c.WallClock = wall(back) }
			m, stop := durableClusterWith(t, dir, 0, cfg, first, first+1)
			defer stop()
			<-time.After(time.Second)
			op := operation.Op{Key: "keep/m", Kind: crdt.KindLWWMap, Plan: func(v crdt.Value) (operation.Plan, error) {
				if got, _ := v.(*textMap).Get(entry); got != had {
					t.Errorf("life %d begins with %q, not %q", first, got, had)
				}
				return operation.Plan{Growth: 64, Entries: []string{entry}, Stamped: func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
					return v.(*textMap).Set(entry, fmt.Sprintf("of %d", first), crdt.Stamp{Time: max(above[0]+1, wall<<16), Node: crdt.NodeID(first)})
				}}, nil
			}}
			if err := m.nodes[first].Update(t.Context(), []operation.Op{op}, replicator.Majority(0, 0)); err != nil {
				t.Errorf("life %d: %v", first, err)
			}
			if got := m.nodes[first].Stats().Eras; got != eras {
				t.Errorf("life %d: %d eras were begun", first, got)
			}
		}
		life(1, 0, "a", "", 0)
		life(3, 0, "b", "", 0)
		life(5, 9*24*time.Hour, "a", "of 1", 1)
		life(7, 9*24*time.Hour, "a", "of 5", 0)
		life(9, 0, "b", "of 3", 0)
		life(11, 0, "a", "of 7", 0)
	})
}
