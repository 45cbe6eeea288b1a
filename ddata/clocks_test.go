package ddata

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

const century = 73 * 365 * 24 * time.Hour

func tickOf(t time.Time) uint64 { return uint64(t.UnixMilli()) << 16 }

// The clock of one node of three stands in 2099. Its writes are
// acknowledged under stamps of the present, and other nodes write over them.
func TestOneClockFarAheadCostsNobodyElse(t *testing.T) {
	for _, level := range []Level{Local, Majority, All} {
		t.Run(level.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, m3 := newMesh(t, 3), LWWMapKey[string, int]("m")
				m.skew(3, century)
				synctest.Wait() // the clocks have been told
				set := func(id gossip.NodeID, v int) {
					must(t, Update(t.Context(), m.data[id], m3, level, func(tx *LWWMapTx[string, int]) error { tx.Set("k", v); return nil }))
				}
				for v := range 12 {
					id := gossip.NodeID(v%3 + 1)
					set(id, v)
					got, err := Get(t.Context(), m.data[1], m3, All)
					must(t, err)
					if at, _ := got.Stamp("k"); at.Time > tickOf(time.Now().Add(time.Minute)) {
						t.Fatalf("write %d stands at %v", v, time.UnixMilli(int64(at.Time>>16)))
					}
					if have, _ := got.Get("k"); have != v {
						t.Fatalf("%d stands, not %d", have, v)
					}
					<-time.After(time.Second)
				}
			})
		})
	}
}

// A stamp of a caller's that is more than a minute ahead is refused before anything changes.
func TestStampOfTheFutureIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, key := newMesh(t, 3), LWWRegisterKey[string]("r")
		for _, at := range []uint64{tickOf(time.Now().Add(2 * time.Minute)), uint64(time.Now().UnixNano()), 1 << 63, 1<<64 - 2, 1<<64 - 1} {
			for _, level := range []Level{Local, Majority} {
				err := Update(t.Context(), m.data[1], key, level, func(r *LWWRegisterTx[string]) error {
					r.SetAt("theirs", crdt.Stamp{Time: at, Node: 1})
					return nil
				})
				if !errors.Is(err, replicator.ErrAhead) {
					t.Errorf("stamp %d at %v: %v", at, level, err)
				}
			}
		}
		must(t, Update(t.Context(), m.data[2], key, All, func(r *LWWRegisterTx[string]) error { r.Set("ours"); return nil }))
		got, err := Get(t.Context(), m.data[1], key, Local)
		must(t, err)
		if v, _ := got.Value(); v != "ours" {
			t.Errorf("%q stands", v)
		}
	})
}

// A SetAt that loses fails, and says which stamp stands; all that the update asks for
// beside it is left undone. OfferAt does nothing then.
func TestSetAtThatLosesSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, key := newMesh(t, 3), LWWMapKey[string, string]("m")
		at := func(term uint64) crdt.Stamp { return crdt.Stamp{Time: term, Node: 1, Seq: 1} }
		set := func(id gossip.NodeID, level Level, v string, term uint64) error {
			return Update(t.Context(), m.data[id], key, level, func(tx *LWWMapTx[string, string]) error {
				tx.SetAt("k", v, at(term))
				tx.SetAt("beside", v, at(term+10))
				return nil
			})
		}
		m.block(1, 3, true)
		must(t, set(1, Majority, "five", 5))
		must(t, set(1, Majority, "five", 5))
		m.block(1, 3, false)
		m.block(1, 2, true)
		for id, level := range map[gossip.NodeID]Level{1: Local, 3: All} {
			m.block(1, 2, level == Local)
			var stale *replicator.Error
			if err := set(id, level, "four", 4); !errors.As(err, &stale) || stale.Code != replicator.ErrStale || stale.Stamp != at(5) || stale.Entry != "k" {
				t.Errorf("at %v: %v", level, err)
			}
		}
		got, err := Get(t.Context(), m.data[1], key, Local)
		must(t, err)
		if s, _ := got.Stamp("beside"); s != at(15) {
			t.Errorf("beside it, %v", s)
		}
		must(t, Update(t.Context(), m.data[1], key, Majority, func(tx *LWWMapTx[string, string]) error {
			tx.OfferAt("k", "three", at(3))
			return nil
		}))
	})
}
