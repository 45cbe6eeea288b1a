package ddata

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/internal/transport"
)

// The function of a View sees one state, whatever is written meanwhile, holds up no other
// caller, and may use Data; its error is returned.
func TestViewShowsOneState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, key, mine := newMesh(t, 3), ORSetKey[string]("k"), errors.New("mine")
		d := m.data[1]
		add := func(id gossip.NodeID, e string, level Level) {
			must(t, Update(t.Context(), m.data[id], key, level, func(s *ORSetTx[string]) error { s.Add(e); return nil }))
		}
		add(1, "before", All)
		err := View(t.Context(), d, key, func(s ORSet[string]) error {
			start := time.Now()
			add(1, "meanwhile", Majority)
			add(2, "theirs", All)
			got, err := Get(t.Context(), d, key, Local)
			must(t, err)
			if got.Len() != 3 || s.Len() != 1 || !s.Contains("before") || s.Contains("meanwhile") || time.Since(start) > 50*time.Millisecond {
				t.Errorf("%v, while %v is read, after %v", got.Elements(), s.Elements(), time.Since(start))
			}
			return mine
		})
		if !errors.Is(err, mine) {
			t.Error(err)
		}
		must(t, View(t.Context(), d, GCounterKey("none"), func(c GCounter) error {
			if c.Count() != 0 {
				t.Error(c.Count())
			}
			return nil
		}))
		var kind *crdt.KindError
		if err := View(t.Context(), d, FlagKey("k"), func(Flag) error { return mine }); !errors.As(err, &kind) {
			t.Error(err)
		}
	})
}

// BenchmarkContains looks for one element of 50,000.
func BenchmarkContains(b *testing.B) {
	r := replica.New(replica.Config{Self: 7, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
	defer r.Close()
	d, key := dataOf(r), ORSetKey[string]("k")
	if err := Update(b.Context(), d, key, Local, func(s *ORSetTx[string]) error {
		for i := range 50_000 {
			s.Add(fmt.Sprint(i))
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	found := func(s ORSet[string]) error {
		if !s.Contains("4711") {
			b.Error("gone")
		}
		return nil
	}
	b.Run("Get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s, _ := Get(b.Context(), d, key, Local)
			_ = found(s)
		}
	})
	b.Run("View", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = View(b.Context(), d, key, found)
		}
	})
}
