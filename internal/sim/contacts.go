package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// memberlist is modelled as an adversary: it tells each node its own story, late,
// repeated, with the dead among the living, and never says who is in a view. All
// that is asked of it is that a living contact comes up in the end.

// askAround tells a process contacts again and again, and settles who forms.
func (p *proc) askAround() {
	wait := p.w.toldRand.dur(20*time.Millisecond, 400*time.Millisecond)
	if p.member.view != nil {
		wait *= 4
	}
	p.w.after(wait, func() {
		if !p.alive || p.over {
			return
		}
		p.run(p.learn)
		p.askAround()
	})
}

func (p *proc) learn() {
	w := p.w
	if p.over {
		return
	}
	if p.member.view == nil && w.mayForm(p) {
		w.event(p, "forms", 0, nil)
		w.formed++
		if w.formed > 1 {
			w.hit(markReformed)
		}
		p.step(view.Form{Generation: w.wallClock()})
		return
	}
	told := w.story(p)
	if len(told) > 0 {
		p.step(view.Contacts{Nodes: told})
	}
}

// story is what memberlist tells one process at one time.
func (w *world) story(p *proc) []view.Node {
	var told []view.Node
	for _, i := range w.toldRand.subset(len(w.hosts), 1+w.toldRand.intn(len(w.hosts))) {
		if q := w.hosts[i].proc; q != nil && (q != p || w.toldRand.chance(10)) {
			told = append(told, q.node)
		}
		if old := w.hosts[i].former; len(old) > 0 && w.toldRand.chance(25) {
			told = append(told, old[w.toldRand.intn(len(old))])
		}
	}
	return told
}

// wallClock is what a forming node takes its generation from: seconds, so that
// later is greater as long as clusters form more than a second apart.
func (w *world) wallClock() uint32 {
	return w.wallAtStart + uint32(w.now/instant(time.Second))
}

// mayForm is the forming rule of DESIGN 4.7 with all hosts as contact points and
// all of them expected: every one answers, none belongs to a cluster, and this
// one has the lowest address.
func (w *world) mayForm(p *proc) bool {
	for i := range w.hosts {
		q := w.hosts[i].proc
		if w.hosts[i].stay && q == nil {
			continue
		}
		if q == nil || q.paused || q.over || q.member.view != nil || w.blocked(p.slot, i) != open {
			return false
		}
		if i < p.slot {
			return false
		}
	}
	// Two of a mind in one second would share a generation.
	if w.formedAt != 0 && w.wallClock() <= w.formedAt {
		return false
	}
	w.formedAt = w.wallClock()
	return true
}
