package sim

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// walls are the wall clocks of the hosts, from which the first epoch of a cluster is taken. In
// runs with wallJumps they are set forward and back by up to an hour at each start of a process,
// and each host keeps the file in which package peerage notes the generations that were met
// (generation.go of the root package), so tokens must rise even so. In the other runs no
// host keeps anything: the clocks are right, and must do.
type walls struct {
	run   *run.Run
	hosts []wall
}

// wall is the clock and the file of one host.
type wall struct {
	// ahead is by how many seconds the clock is ahead, generation the highest in the file.
	ahead      int64
	generation uint32
}

func newWalls(r *run.Run) *walls { return &walls{run: r, hosts: make([]wall, r.Config.Nodes)} }

// second is how long a second of the wall clocks lasts. Takeovers follow each other
// without a rest here, each opens a generation of its own, and a cluster that is formed
// without any knowledge of them must be above them (the condition of G2): so seconds are
// short, but for a single host, which takes over from none and is restarted within them.
func (w *walls) second() time.Duration {
	if len(w.hosts) == 1 {
		return time.Second
	}
	return 20 * time.Millisecond
}

// readClock returns the second and the millisecond that a host's clock shows.
func (w *walls) readClock(slot int) (second uint32, millisecond uint16) {
	now, length := time.Duration(w.run.Now()), w.second()
	second = uint32(int64(virtual.WallAtStart) + int64(now/length) + w.hosts[slot].ahead)
	return second, uint16(now % length * 1000 / length)
}

// jump sets a host's clock.
func (w *walls) jump(slot int) {
	if !w.run.Config.WallJumps {
		return
	}
	w.hosts[slot].ahead = int64(w.run.Rand.Wall.Duration(0, 2*time.Hour)/time.Second) - 3600
	w.run.Hit(coverage.WallJump)
}

// note keeps a generation in a host's file, if it has one.
func (w *walls) note(slot int, generation uint32) {
	if w.run.Config.WallJumps {
		w.hosts[slot].generation = max(w.hosts[slot].generation, generation)
	}
}

// formingGeneration returns the generation of a cluster that is formed on a host.
// It is the wall clock's, raised above the generation of any host. met has the
// generations that their processes have met; all processes answer.
func (w *walls) formingGeneration(slot int, met []uint32) (generation uint32, millisecond uint16) {
	generation, millisecond = w.readClock(slot)
	for i := range w.hosts {
		generation = max(generation, max(w.hosts[i].generation, met[i])+1)
	}
	return generation, millisecond
}
