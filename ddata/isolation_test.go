package ddata

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/replicator"
)

// The function of an Update that takes long delays no other caller: no reads here, no updates
// of other keys, not those of the same key, not what other replicas send.
func TestSlowFunctionHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3)
		d, set := m.data[1], ORSetKey[string]("set")
		add := func(d *Data, key Key[ORSet[string], *ORSetTx[string]], e string, level Level) error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			return Update(ctx, d, key, level, func(s *ORSetTx[string]) error { s.Add(e); return nil })
		}
		began, finish, done := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			done <- Update(t.Context(), d, set, Local, func(s *ORSetTx[string]) error {
				select {
				case <-began:
				default:
					close(began)
				}
				<-finish
				s.Add(fmt.Sprint("after ", s.Len()))
				return nil
			})
		}()
		<-began
		start := time.Now()
		must(t, add(d, ORSetKey[string]("other"), "x", Majority))
		must(t, add(d, set, "mine", Majority))
		must(t, add(m.data[2], set, "theirs", All))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		got, err := Get(ctx, d, set, Local)
		must(t, err)
		if got.Len() != 2 {
			t.Errorf("%v", got.Elements())
		}
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("all that took %v", took)
		}
		close(finish)
		must(t, <-done)
		got, err = Get(t.Context(), d, set, Local)
		must(t, err)
		if !got.Contains("after 2") || got.Len() != 3 {
			t.Errorf("decided on a state that had passed: %v", got.Elements())
		}
	})
}

// Within the function of an Update, everything of Data may be used.
func TestFunctionMayUseData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3)
		d, a, b := m.data[1], GCounterKey("a"), GCounterKey("b")
		must(t, Update(t.Context(), d, a, Local, func(c *GCounterTx) error {
			for _, level := range []Level{Local, Majority, All} {
				if _, err := Get(t.Context(), d, a, level); err != nil {
					return err
				}
			}
			if err := Update(t.Context(), d, b, Majority, func(c *GCounterTx) error { c.Add(1); return nil }); err != nil {
				return err
			}
			got, err := Get(t.Context(), d, b, Local)
			c.Add(got.Count())
			return err
		}))
		got, err := Get(t.Context(), d, a, Local)
		if must(t, err); got.Count() != 1 {
			t.Errorf("%d", got.Count())
		}
	})
}

// An Update within the function of an Update of the same key: one of the two ends with
// ErrContended, and there is no dead lock.
func TestFunctionThatUpdatesItsOwnKeyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 1)
		d, key := m.data[1], GCounterKey("k")
		var inner error
		outer := Update(t.Context(), d, key, Local, func(c *GCounterTx) error {
			n := c.Count()
			inner = Update(t.Context(), d, key, Local, func(c *GCounterTx) error { c.Add(c.Count() + 1); return nil })
			c.Add(n)
			return nil
		})
		if !errors.Is(outer, replicator.ErrContended) && !errors.Is(inner, replicator.ErrContended) {
			t.Errorf("outer: %v, inner: %v", outer, inner)
		}
	})
}

// Many writers of one key on one node, each of which decides on what it has read: none is
// lost, and none is refused.
func TestFunctionsOfOneKeySeeEachOther(t *testing.T) {
	for _, level := range []Level{Local, Majority} {
		t.Run(level.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, 3)
				key := LWWRegisterKey[int]("n")
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() {
						for range 4 {
							must(t, Update(t.Context(), m.data[1], key, level, func(r *LWWRegisterTx[int]) error {
								n, _ := r.Value()
								r.Set(n + 1)
								return nil
							}))
						}
					})
				}
				all.Wait()
				got, err := Get(t.Context(), m.data[1], key, level)
				must(t, err)
				if n, _ := got.Value(); n != 200 {
					t.Errorf("%d of 200 increments", n)
				}
			})
		})
	}
}

// What other replicas send while a function runs makes it neither start over nor lose
// anything, however much it is.
func TestMergesBesideAFunctionAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2)
		key := ORSetKey[int]("set")
		add := func(i int) {
			must(t, Update(t.Context(), m.data[2], key, All, func(s *ORSetTx[int]) error { s.Add(i); return nil }))
		}
		add(-1)
		ran, next := 0, 0
		for i := range 20 {
			must(t, Update(t.Context(), m.data[1], key, Local, func(s *ORSetTx[int]) error {
				ran++
				before := s.Len()
				for range 50 {
					next++
					add(next)
				}
				if s.Len() != before {
					t.Error("the transaction's state has changed")
				}
				s.Add(-2 - i)
				s.Remove(next - 75) // removed long before: no effect
				return nil
			}))
		}
		got, err := Get(t.Context(), m.data[1], key, Local)
		must(t, err)
		if ran != 20 || got.Len() != 1+1000+20-19 {
			t.Errorf("ran %d times, %d elements", ran, got.Len())
		}
		other, err := Get(t.Context(), m.data[2], key, Majority)
		must(t, err)
		if other.Len() != got.Len() {
			t.Errorf("the other has %d elements", other.Len())
		}
	})
}

// Readers of snapshots and the replicator do not get in each other's way (with -race).
func TestSnapshotsAreReadBesideChanges(t *testing.T) {
	m := newMesh(t, 2)
	set, table, tree, multi, counts := ORSetKey[int]("set"), LWWMapKey[int, int]("map"), ORMapKey[int, int]("tree"), ORMultiMapKey[int, int]("multi"), PNCounterMapKey[int]("counts")
	var all sync.WaitGroup
	for id := range m.data {
		for range 2 {
			all.Go(func() {
				d := m.data[id]
				for i := range 100 {
					must(t, Update(t.Context(), d, set, Majority, func(s *ORSetTx[int]) error {
						n := 0
						for range s.All() {
							n++
						}
						s.Add(n%20 + i)
						return nil
					}))
					must(t, Update(t.Context(), d, table, Majority, func(m *LWWMapTx[int, int]) error { m.Set(i, m.Len()); return nil }))
					must(t, Update(t.Context(), d, tree, Majority, func(m *ORMapTx[int, int]) error {
						m.At(i, len(m.Keys())).Increment(int64(m.At(i).Count()) + 1)
						return nil
					}))
					must(t, Update(t.Context(), d, multi, Majority, func(m *ORMultiMapTx[int, int]) error { m.Add(i, m.Len()); return nil }))
					must(t, Update(t.Context(), d, counts, Majority, func(m *PNCounterMapTx[int]) error { m.Add(i, int64(m.Len())); return nil }))
				}
			})
		}
	}
	all.Wait()
}
