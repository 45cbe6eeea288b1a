package crdt

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/peerage-go/peerage/internal/testsize"
)

// randomScript returns the script of a seed.
func randomScript(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// shrink cuts bytes out of a failing script as long as it still fails.
func shrink(sub *subject, replicas int, script []byte) []byte {
	for size := len(script) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(script); {
			shorter := append(append([]byte(nil), script[:at]...), script[at+size:]...)
			if newWorld(sub, replicas).run(shorter) != nil {
				script = shorter
			} else {
				at += size
			}
		}
	}
	return script
}

// seeds returns how many seeds a campaign takes: n, or CRDT_SEEDS.
func seeds(n int) uint64 {
	if s, err := strconv.Atoi(os.Getenv("CRDT_SEEDS")); err == nil {
		n = s
	}
	return uint64(n)
}

// TestLongRuns plays long scripts, on few seeds. Longer: CRDT_SEEDS=100000.
func TestLongRuns(t *testing.T) {
	for _, sub := range subjects() {
		t.Run(sub.name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds(testsize.Runs(50, 50, 150)) {
				replicas, script := 2+int(seed%3), randomScript(seed, 600)
				if newWorld(sub, replicas).run(script) != nil {
					script = shrink(sub, replicas, script)
					t.Fatalf("seed %d, script %x: %v", seed, script, newWorld(sub, replicas).run(script))
				}
			}
		})
	}
}

// mutants are the mistakes that other libraries have made. Each must be noticed
// within a few hundred seeds, or the worlds are too tame.
func mutants() map[string]struct {
	sub *subject
	m   mutant
} {
	type entry = struct {
		sub *subject
		m   mutant
	}
	overclaim := func(v Value) Value {
		f := v.(*ORSet[string]).grown()
		for i := range f.columns {
			f.addSeen(i, 1, f.columns[i].seen.max())
		}
		return v
	}
	return map[string]entry{
		// GoAkt; Akka #22890: the context of a delta covers all earlier dots.
		"delta with a bare vector": {orsetSubject(), mutant{delta: overclaim}},
		// riak_dt #82, akka.net #8220: what both sides have is kept whole.
		"keep when both have it": {orsetSubject(), keepBoth()},
		// delta_crdt_ex: a gapped context is compressed to its highest dot.
		"max instead of contiguous": {orsetSubject(), mutant{join: func(dst, _ Value) { overclaim(dst) }}},
		// delta_crdt_ex max_sync_size: a part of the content, all of the context.
		"chunk with the whole context": {orsetSubject(), mutant{part: func(part, whole Value) {
			f := part.(*ORSet[string]).grown()
			for _, c := range whole.(*ORSet[string]).indexed().columns {
				if c.used {
					sum, _ := f.columns[f.column(c.node)].seeAll(c.seen)
					f.sum += sum
				}
			}
		}}},
		// Hazard 12: a remove that forgets what it has seen.
		"delta without the dots it replaces": {orsetSubject(), mutant{delta: func(v Value) Value {
			s := v.(*ORSet[string])
			s.one.gone, s.one.more = Dot{}, nil
			return s
		}}},
		// Hazard 10: equal stamps fall to whoever is asked.
		"tie falls to the receiver": {lwwMapSubject(), tieToReceiver()},
		// Hazard 2: a join that takes dots and forgets to note them.
		"join loses context": {orsetSubject(), mutant{join: func(dst, _ Value) {
			f := dst.(*ORSet[string]).grown()
			for i := range f.columns {
				c := &f.columns[i]
				f.sum -= c.seenHash()
				c.seen = c.runs()
				f.sum += c.seenHash()
			}
		}}},
	}
}

// keepBoth undoes what a join did to elements that both sides had.
func keepBoth() mutant {
	return mutant{join: func(dst, src Value) {
		d, s := dst.(*ORSet[string]).grown(), src.(*ORSet[string]).indexed()
		for _, c := range s.columns {
			c.each(func(seq uint64, at uint32) {
				ci := d.column(c.node)
				e := s.slotAt(at).val
				if _, ok := d.columns[ci].slotOf(seq); !ok && dst.(*ORSet[string]).Contains(e) {
					orsetHooks[string]{d, nil}.arrived(d.insertDot(ci, seq, e))
				}
			})
		}
	}}
}

// tieToReceiver turns back entries that came with a stamp the receiver had.
func tieToReceiver() mutant {
	last := map[string]lwwEntry[string, string]{}
	return mutant{join: func(dst, src Value) {
		m := dst.(*LWWMap[string, string]).grown()
		for e := range src.(*LWWMap[string, string]).entries() {
			if old, ok := last[e.key]; ok && old.stamp == e.stamp {
				at, _ := m.findSlot(m.table.hash(e.key), e.key)
				m.account(m.entryAt(at), -1)
				m.editEntry(at).val, m.editEntry(at).dead = old.val, old.dead
				m.account(m.entryAt(at), 1)
			}
			last[e.key] = *e
		}
	}}
}

func TestMutantsAreCaught(t *testing.T) {
	for name, x := range mutants() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(400) {
				w := newWorld(x.sub, 3)
				w.mutant = x.m
				if w.run(randomScript(seed, 300)) != nil {
					t.Logf("caught at seed %d", seed)
					return
				}
			}
			t.Error("no world noticed")
		})
	}
}
