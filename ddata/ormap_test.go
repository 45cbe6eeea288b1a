package ddata

import (
	"slices"
	"sync"
	"testing"
)

func TestORMapOfOtherTypes(t *testing.T) {
	d, key := alone(t), ORMapKey[int, uint16]("k")
	if err := Update(t.Context(), d, key, Local, func(m *ORMapTx[int, uint16]) error {
		m.At(1).Set(7)
		m.At(1).Add(8)
		m.At(1, 2).Add(9)
		m.At(1, 2).Increment(-4)
		m.At(3).Enable()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	m, err := Get(t.Context(), d, key, Local)
	keys := m.Keys()
	slices.Sort(keys)
	if err != nil || m.Len() != 2 || !slices.Equal(keys, []int{1, 3}) || !slices.Equal(m.At(1).Keys(), []int{2}) {
		t.Errorf("%v %v", keys, err)
	}
	// Readers may be several at once.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			p := m.At(1, 2)
			if m.At(1).Values()[0] != 7 || !m.At(1).Has(8) || !p.Has(9) || p.Count() != -4 || !m.At(3).Enabled() {
				t.Error("a reader sees something else")
			}
		})
	}
	wg.Wait()
	if err := Update(t.Context(), d, key, Local, func(m *ORMapTx[int, uint16]) error {
		m.At(1).Unset()
		m.At(1).Discard(8)
		m.At(1, 2).Remove()
		m.At(3).Disable()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if m, err := Get(t.Context(), d, key, Local); err != nil || m.Len() != 0 || m.At(1).Exists() {
		t.Errorf("%v, %v", m.Keys(), err)
	}
	var zero ORMap[int, uint16]
	if zero.Len() != 0 || zero.Keys() != nil || zero.At(1).Exists() {
		t.Error("the zero map is not empty")
	}
}
