package sim

import "time"

// Wall clocks serve two purposes: the client's register (below), and the first epoch of a
// cluster that is formed. In runs with wallJumps they are set forward and back by up to an hour at each start of a process, and
// each host keeps the file in which package peerage notes the generations that were met
// (generation.go of the root package), so tokens must rise even so. In the other runs no
// host keeps anything: the clocks are right, and must do.

// wallSecond is how long a second of the wall clocks lasts. Takeovers follow each other
// without a rest here, each opens a generation of its own, and a cluster that is formed
// without any knowledge of them must be above them (the condition of G2): so seconds are
// short, but for a single host, which takes over from none and is restarted within them.
func (w *world) wallSecond() time.Duration {
	if len(w.hosts) == 1 {
		return time.Second
	}
	return 20 * time.Millisecond
}

// wallClock returns the second and the millisecond that a host's clock shows.
func (w *world) wallClock(slot int) (second uint32, millisecond uint16) {
	now, wallSecond := time.Duration(w.Now()), w.wallSecond()
	second = uint32(int64(w.wallAtStart) + int64(now/wallSecond) + w.hosts[slot].wallAhead)
	return second, uint16(now % wallSecond * 1000 / wallSecond)
}

// jumpWall sets a host's clock.
func (w *world) jumpWall(slot int) {
	if !w.swarm.wallJumps {
		return
	}
	w.hosts[slot].wallAhead = int64(w.wallRand.Duration(0, 2*time.Hour)/time.Second) - 3600
	w.hit(markWallJump)
}

// noteGeneration keeps a generation that a process has met: in its memory for its next
// incarnation, and in the host's file, if it has one.
func (p *proc) noteGeneration(generation uint32) {
	p.generation = max(p.generation, generation)
	if h := &p.w.hosts[p.slot]; p.w.swarm.wallJumps {
		h.generation = max(h.generation, generation)
	}
}

// formingGeneration returns the generation of a cluster that p forms.
// It is the wall clock's, raised above the generation of any host; all answer (mayForm).
func (w *world) formingGeneration(p *proc) (generation uint32, millisecond uint16) {
	generation, millisecond = w.wallClock(p.slot)
	if w.cfg.Mutant.Is("lives of one second alike") {
		millisecond = 0
	}
	if w.cfg.Mutant.Is("generation of the wall clock alone") {
		return generation, millisecond
	}
	for i := range w.hosts {
		known := w.hosts[i].generation
		if q := w.hosts[i].proc; q != nil {
			known = max(known, q.generation)
		}
		generation = max(generation, known+1)
	}
	return generation, millisecond
}

// The client's register, in runs with clocks: a value whose last write wins by the wall clocks
// of hosts, which jump by up to an hour, also while processes run. A write acknowledged at a
// majority wins over every write that was acknowledged before it began (S4), and once the
// clocks are right again each write is made.

// jumpsMax bounds the jumps of a run: each may end an era of the register.
const jumpsMax = 6

// planClocks has the clocks of hosts jump until the run's faults end.
func planClocks(w *world, jumps int) {
	if !w.swarm.clocks || jumps == 0 {
		return
	}
	w.After(w.clockRand.Duration(0, w.swarm.duration/2), func() {
		if w.calm {
			return
		}
		h := &w.hosts[w.clockRand.IntN(len(w.hosts))]
		h.clockAhead = w.clockRand.Duration(0, 2*time.Hour) - time.Hour
		w.hit(markClockJump)
		planClocks(w, jumps-1)
	})
}

// stampClock returns the wall clock of a host in milliseconds.
func stampClock(w *world, slot int) uint64 {
	return uint64((int64(w.wallAtStart)*int64(time.Second) + int64(w.Now()) + int64(w.hosts[slot].clockAhead)) / int64(time.Millisecond))
}

// rightClocks sets all clocks of stamps right.
func rightClocks(w *world) {
	for i := range w.hosts {
		w.hosts[i].clockAhead = 0
	}
}
