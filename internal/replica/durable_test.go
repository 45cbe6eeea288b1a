package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
	"go.etcd.io/bbolt"
)

func openDurable(t *testing.T, path string, sync time.Duration) *Durable {
	t.Helper()
	d, err := OpenDurable(DurableConfig{Path: path, Owner: "c/r", Prefixes: []string{"keep/"}, Sync: sync})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// durableCluster starts a mesh of n replicators with a file each.
func durableCluster(t *testing.T, dir string, sync time.Duration, ids ...gossip.NodeID) (m *mesh, stop func()) {
	return durableClusterWith(t, dir, sync, func(*Config, *DurableConfig) {}, ids...)
}

func durableClusterWith(t *testing.T, dir string, sync time.Duration, tweak func(*Config, *DurableConfig), ids ...gossip.NodeID) (m *mesh, stop func()) {
	m = &mesh{nodes: map[gossip.NodeID]*Replicator{}, cut: map[gossip.NodeID]bool{}}
	v := &gossip.View{Epoch: gossip.FirstEpoch(uint32(ids[0]))}
	var files []*Durable
	for i, id := range ids {
		file := DurableConfig{Path: filepath.Join(dir, fmt.Sprint("file", i)), Owner: "c/r", Prefixes: []string{"keep/"}, Sync: sync}
		cfg := Config{Self: id, Role: "r", PruneEvery: 10 * time.Millisecond, GossipEvery: 20 * time.Millisecond,
			Send: func(to gossip.NodeID, _ transport.Class, frame []byte) error { return m.send(t, id, to, frame) }}
		tweak(&cfg, &file)
		d, err := OpenDurable(file)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Durable = d
		files = append(files, d)
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id, Roles: []string{"r"}}, Status: gossip.Up})
		m.mu.Lock()
		m.nodes[id] = New(cfg)
		m.mu.Unlock()
	}
	for _, r := range m.nodes {
		r.SetView(v)
	}
	return m, func() {
		for _, r := range m.nodes {
			r.Close()
		}
		for _, d := range files {
			d.Close()
		}
	}
}

// A member is away for longer than deletions of durable keys are remembered. Its file
// is set aside, with a copy, an error in the log and a count; the others fill it, and
// nothing that was deleted comes back. Afterwards it is a member like any other.
func TestFileThatWasAwayTooLongIsSetAside(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := func(c *Config, d *DurableConfig) {
			c.GossipEvery, c.PruneEvery, d.Retain = 20*time.Second, time.Minute, time.Hour
		}
		run := func(f func(m *mesh), ids ...gossip.NodeID) {
			m, stop := durableClusterWith(t, dir, 0, cfg, ids...)
			f(m)
			stop()
		}
		update := func(r *Replicator, ops ...operation.Op) {
			t.Helper()
			if err := r.Update(t.Context(), ops, replicator.All); err != nil {
				t.Fatal(err)
			}
		}
		check := func(m *mesh, id gossip.NodeID, aside uint64) {
			t.Helper()
			vs, err := m.nodes[id].Get(t.Context(), []string{"keep/a", "keep/b"}, replicator.All)
			if err != nil || vs[0] != nil || !slices.Equal(elements(vs[1]), []string{"e"}) {
				t.Errorf("%v %v", vs, err)
			}
			if s := m.nodes[id].Stats(); s.SetAside != aside || s.DurableErrors > 0 {
				t.Errorf("%d keys set aside, want %d; %d errors", s.SetAside, aside, s.DurableErrors)
			}
		}
		run(func(m *mesh) {
			update(m.nodes[1], addTo(1, "keep/a", "e"), addTo(1, "keep/b", "e"))
			<-time.After(30 * time.Minute)
		}, 1, 2, 3)
		run(func(m *mesh) {
			update(m.nodes[11], deleteOp("keep/a"))
			<-time.After(30 * time.Minute)
			if n := m.nodes[12].Stats().Tombstones; n != 1 {
				t.Errorf("%d tombstones before the time", n)
			}
			<-time.After(90 * time.Minute)
			if n := m.nodes[12].Stats().Tombstones; n != 0 {
				t.Errorf("%d tombstones after the time", n)
			}
		}, 11, 12)
		run(func(m *mesh) {
			check(m, 23, 2)
			<-time.After(30 * time.Minute)
		}, 21, 22, 23)
		run(func(m *mesh) { check(m, 33, 0) }, 31, 32, 33)
		run(func(m *mesh) { check(m, 41, 0) }, 41)
		copies, err := filepath.Glob(filepath.Join(dir, "file2.aside-*"))
		if err != nil || len(copies) != 1 {
			t.Fatalf("%q, %v", copies, err)
		}
		old := openDurable(t, copies[0], 0)
		defer old.Close()
		var keys []string
		if err := old.readRecords(func(it replication.Item) error { keys = append(keys, it.Key); return nil }); err != nil || !slices.Equal(keys, []string{"keep/a", "keep/b"}) {
			t.Errorf("the copy has %q, %v", keys, err)
		}
	})
}

// What cannot be set aside is not written over.
func TestFileThatCannotBeSetAsideIsLeftAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := openDurable(t, filepath.Join(dir, "file"), 0)
	defer d.Close()
	if err := d.writeBatch(replication.Memory{Sweep: 5}, []replication.Item{{Key: "keep/x", Gen: 2}}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"elsewhere"); err != nil {
		t.Fatal(err)
	}
	if path, err := d.setAside(time.Now()); err == nil {
		t.Errorf("a copy at %s", path)
	}
	if m, err := d.memory(); err != nil || m.Sweep != 5 {
		t.Errorf("%+v, %v", m, err)
	}
}

func deleteOp(key string) operation.Op { return operation.Op{Key: key, Delete: true} }

// The whole cluster stops and starts again: durable keys are there, at all members,
// what was deleted is not, and others are gone.
func TestRestartOfAllBringsDurableKeysBack(t *testing.T) {
	for _, sync := range []time.Duration{0, 5 * time.Millisecond} {
		dir := t.TempDir()
		m, stop := durableCluster(t, dir, sync, 1, 2, 3)
		level := replicator.Majority(0, 0)
		for i := range 10 {
			id := gossip.NodeID(i%3 + 1)
			if err := m.nodes[id].Update(t.Context(), []operation.Op{addTo(id, "keep/set", fmt.Sprint(i)), addTo(id, "keep/gone", "e")}, level); err != nil {
				t.Fatal(err)
			}
			if err := m.nodes[id].Update(t.Context(), []operation.Op{addTo(id, "lose/set", "e")}, level); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.nodes[2].Update(t.Context(), []operation.Op{deleteOp("keep/gone"), replication.Mutate("keep/set", crdt.KindORSet, 0, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORSet[string]).Remove("0")
		})}, replicator.All); err != nil {
			t.Fatal(err)
		}
		if s := m.nodes[1].Stats(); sync == 0 && s.DurableWrites == 0 || s.DurableErrors > 0 {
			t.Errorf("%d writes, %d errors", s.DurableWrites, s.DurableErrors)
		}
		stop()
		for round := range gossip.NodeID(2) {
			m, stop = durableCluster(t, dir, sync, 11+10*round, 12+10*round, 13+10*round)
			for id, r := range m.nodes {
				vs, err := r.Get(t.Context(), []string{"keep/set", "keep/gone", "lose/set"}, level)
				if err != nil || !slices.Equal(elements(vs[0]), strings.Split("1 2 3 4 5 6 7 8 9", " ")) || vs[1] != nil || vs[2] != nil {
					t.Errorf("sync %v: node %v: %v %v", sync, id, vs, err)
				}
			}
			stop()
		}
	}
}

// One member was away while keys and elements were deleted: its file is old, and
// brings nothing back.
func TestOldFileBringsNothingBack(t *testing.T) {
	dir := t.TempDir()
	m, stop := durableCluster(t, dir, 0, 1, 2, 3)
	if err := m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "keep/a", "e"), addTo(1, "keep/b", "x"), addTo(1, "keep/b", "y")}, replicator.All); err != nil {
		t.Fatal(err)
	}
	stop()
	m, stop = durableCluster(t, dir, 0, 11, 12)
	if err := m.nodes[11].Update(t.Context(), []operation.Op{deleteOp("keep/a"), replication.Mutate("keep/b", crdt.KindORSet, 0, func(v crdt.Value) crdt.Value {
		return v.(*crdt.ORSet[string]).Remove("x")
	})}, replicator.All); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		// Nobody here has a reason of its own to wait for the third member.
		if s := m.nodes[11].Stats(); s.Tombstones != 1 || s.Pruned != 0 {
			t.Fatalf("durable keys were forgotten: %+v", s)
		}
	}
	stop()
	m, stop = durableCluster(t, dir, 0, 21, 22, 23)
	defer stop()
	vs, err := m.nodes[23].Get(t.Context(), []string{"keep/a", "keep/b"}, replicator.All)
	if err != nil || vs[0] != nil || !slices.Equal(elements(vs[1]), []string{"y"}) {
		t.Errorf("%v %v", vs, err)
	}
}

func TestDamagedAndForeignFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	d := openDurable(t, good, 0)
	s := &crdt.ORSet[string]{}
	for i := range 2000 {
		s.Add(1, fmt.Sprint("element ", i))
	}
	if err := d.writeBatch(replication.Memory{}, []replication.Item{{Key: "keep/x", Gen: 3, Kind: crdt.KindORSet, Bytes: s.Append(nil)}, {Key: "keep/y", Gen: 2}}); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDurable(DurableConfig{Path: good, Owner: "c/r", Prefixes: []string{""}, OpenWait: time.Millisecond}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a file that is open: %v", err)
	}
	d.Close()
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[strings.Index(string(whole), "element 1500")] ^= 1
	other := filepath.Join(dir, "other")
	db, err := bbolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	foreign, _ := os.ReadFile(other)
	for name, c := range map[string]struct {
		bytes []byte
		owner string
		want  string
	}{
		"a flipped bit":              {flipped, "c/r", "wrong checksum"},
		"cut in half":                {whole[:len(whole)/2], "c/r", "damaged"},
		"cut after the first pages":  {whole[:8192], "c/r", "damaged"},
		"empty":                      {nil, "c/r", "damaged"},
		"text":                       {[]byte(strings.Repeat("not a database\n", 1000)), "c/r", "damaged or not"},
		"somebody else's bbolt file": {foreign, "c/r", "not a file of durable keys"},
		"another owner":              {whole, "c/other", `belongs to "c/r"`},
	} {
		// A path of its own: a reader that broke off may still hold a lock on the last.
		path := filepath.Join(dir, "bad "+name)
		if err := os.WriteFile(path, c.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := OpenDurable(DurableConfig{Path: path, Owner: c.owner, Prefixes: []string{""}})
		if !errors.Is(err, replicator.ErrDurable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			d.Close()
		}
		if now, _ := os.ReadFile(path); string(now) != string(c.bytes) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if _, err := OpenDurable(DurableConfig{Path: filepath.Join(dir, "short"), Prefixes: []string{""}, Retain: time.Minute}); !errors.Is(err, replicator.ErrDurable) {
		t.Errorf("deletions are remembered for too short: %v", err)
	}
	if _, err := OpenDurable(DurableConfig{}); !errors.Is(err, replicator.ErrDurable) {
		t.Errorf("no path: %v", err)
	}
}

// Nothing is acknowledged that is not on the disk.
func TestChangeThatCannotBeStoredIsNotConfirmed(t *testing.T) {
	d := openDurable(t, filepath.Join(t.TempDir(), "file"), 0)
	r := New(Config{Self: 1, Durable: d, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
	defer r.Close()
	if err := r.Update(t.Context(), []operation.Op{addTo(1, "keep/k", "e")}, replicator.Local); err != nil {
		t.Fatal(err)
	}
	d.Close()
	err := r.Update(t.Context(), []operation.Op{addTo(1, "keep/k", "f")}, replicator.Local)
	if !errors.Is(err, replicator.ErrOutcomeUnknown) || !errors.Is(err, replicator.ErrDurable) {
		t.Errorf("err = %v", err)
	}
	if s := r.Stats(); s.DurableErrors == 0 {
		t.Error("not counted")
	}
}

// While the disk fails, writes of durable keys say so, name the node and change nothing;
// memory keys and reads go on, others' writes arrive but are not confirmed, and when the
// disk works again so does all.
func TestDiskThatFailsConcernsOnlyWhatNeedsIt(t *testing.T) {
	d := openDurable(t, filepath.Join(t.TempDir(), "file"), 0)
	synctest.Test(t, func(t *testing.T) {
		m := diskMesh(t, d)
		m.settle(t)
		one, two := m.nodes[1], m.nodes[2]
		write := func(r *Replicator, key, e string, level replicator.Level) error {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			return r.Update(ctx, []operation.Op{addTo(r.Self(), key, e)}, level)
		}
		if err := one.call(t.Context(), func() { d.fail = errors.New("no space left on device") }); err != nil {
			t.Fatal(err)
		}
		if err := write(one, "keep/k", "first", replicator.Local); !errors.Is(err, replicator.ErrDurable) || !errors.Is(err, replicator.ErrOutcomeUnknown) {
			t.Errorf("the write at which it began: %v", err)
		}
		for _, level := range []replicator.Level{replicator.Local, replicator.Majority(0, 0), replicator.All} {
			if err := write(one, "keep/k", "refused", level); !errors.Is(err, replicator.ErrDurable) || errors.Is(err, replicator.ErrOutcomeUnknown) || !strings.Contains(err.Error(), one.Self().String()) {
				t.Errorf("%v: a durable key: %v", level, err)
			}
			if err := write(one, "memory", level.String(), level); err != nil {
				t.Errorf("%v: a memory key: %v", level, err)
			}
			if vs, err := one.Get(t.Context(), []string{"keep/k", "memory"}, level); err != nil || slices.Contains(elements(vs[0]), "refused") || len(elements(vs[1])) == 0 {
				t.Errorf("%v: read %v, %v", level, vs, err)
			}
		}
		if err := write(two, "keep/k", "theirs", replicator.Majority(0, 0)); err != nil {
			t.Errorf("a majority without the failing disk: %v", err)
		}
		var q *replicator.Error
		if err := write(two, "keep/k", "all", replicator.All); !errors.As(err, &q) || q.Code != replicator.ErrOutcomeUnknown || !slices.Contains(q.Missing, one.Self()) {
			t.Errorf("confirmed by a node that has not stored it: %v", err)
		}
		if s := one.Stats(); !s.DurableFailing || !one.DiskFailing() {
			t.Error("not reported")
		}
		if err := one.call(t.Context(), func() { d.fail = nil }); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * diskRetry)
		if err := write(one, "keep/k", "again", replicator.All); err != nil || one.DiskFailing() {
			t.Errorf("after the disk works again: %v", err)
		}
		if err := write(two, "keep/k", "all again", replicator.All); err != nil {
			t.Error(err)
		}
	})
}

// A file that does not fit into the limits is not taken in whole. It is left as it is,
// and nothing is confirmed that would have to be written over it.
func TestFileThatDoesNotFitIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := openDurable(t, path, 0)
	var items []replication.Item
	for i := range 10 {
		s := &crdt.ORSet[string]{}
		s.Add(1, "e")
		items = append(items, replication.Item{Key: fmt.Sprint("keep/", i), Kind: crdt.KindORSet, Bytes: s.Append(nil)})
	}
	if err := d.writeBatch(replication.Memory{}, items); err != nil {
		t.Fatal(err)
	}
	r := New(Config{Self: 2, Durable: d, Limits: replication.Limits{Keys: 2}, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
	if err := r.Update(t.Context(), []operation.Op{deleteOp("keep/0")}, replicator.Local); !errors.Is(err, replicator.ErrDurable) || errors.Is(err, replicator.ErrOutcomeUnknown) {
		t.Errorf("err = %v", err)
	}
	if s := r.Stats(); s.DurableErrors == 0 {
		t.Error("not counted")
	}
	r.Close()
	d.Close()
	d = openDurable(t, path, 0)
	defer d.Close()
	n := 0
	if err := d.readRecords(func(it replication.Item) error {
		if it.Kind != 0 {
			n++
		}
		return nil
	}); n != len(items) || err != nil {
		t.Errorf("%d keys are left, %v", n, err)
	}
}
