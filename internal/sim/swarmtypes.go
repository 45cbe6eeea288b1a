package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// typeSpec is one entity type of a run, the same on all hosts.
type typeSpec struct {
	name string
	// role is the number of the type's role.
	role             int
	shards, entities int
	// state: entities have a state that planned moves carry along.
	state bool
	// proxies are the hosts that only send, absent those that do not run the type, late
	// those of them that do from some moment on, all as bits.
	proxies, absent, late int
}

// aim is the moment at which the faults of a run strike; most runs have aimNone.
type aim uint8

const (
	aimNone aim = iota
	// aimRaise: several join at one moment, and links break when they become voters.
	aimRaise
	// aimRemoval: a member that is cut off from the leader only is removed, and links break
	// when the leader has committed the removal.
	aimRemoval
	aims
)

func (a aim) String() string { return [...]string{"none", "raise", "removal"}[a] }

// takeAim turns off all faults that do not serve the run's aim.
func (s *swarm) takeAim(r *virtual.Rand, a aim) {
	if s.orderly || a == aimNone {
		return
	}
	s.aim = a
	s.duration = r.Duration(4*time.Second, 6*time.Second)
	s.powerLoss, s.restartAll, s.pause, s.slow, s.partition, s.flaky, s.leave, s.reject, s.driftBeyond = false, false, false, false, false, false, false, false, false
	s.crash, s.bursts, s.together, s.join = false, false, a == aimRaise, a == aimRaise
	s.wrongEvidence, s.policy = false, nil
	s.nodes = r.Between(4, 5) + int(a&aimRaise)
	s.hostRoles = make([]int, s.nodes)
	s.faultEvery = r.Duration(400*time.Millisecond, time.Second)
}

// drawMore draws the later additions to the swarm, from a stream of their own.
func (s *swarm) drawMore(r *virtual.Rand, a aim) {
	s.announce, s.strikes = r.Coin(), r.Coin() && !s.orderly
	s.together = s.join && r.Chance(25) && !s.orderly
	s.drawPolicy(r)
	if r.Chance(6) && a == aimNone {
		a = aim(r.IntN(int(aims)))
	}
	s.takeAim(r, a)
	s.askPercent = []int{0, 30, 60}[r.IntN(3)]
	s.askMax = []time.Duration{200 * time.Millisecond, 2 * time.Second, 10 * time.Second}[r.IntN(3)]
	s.types[0].state = r.Chance(60)
	if r.Chance(35) {
		s.drawRoles(r)
	}
	if r.Chance(30) {
		for i := range s.types {
			s.types[i].proxies = r.IntN(1 << s.nodes)
		}
	}
}

// drawRoles spreads two types over two roles, or both over one.
func (s *swarm) drawRoles(r *virtual.Rand) {
	s.roles = append(s.roles, "back")
	for i := range s.hostRoles {
		if r.Chance(60) {
			s.hostRoles[i] |= 2
		}
	}
	first := &s.types[0]
	first.shards = min(first.shards, 8)
	first.entities = min(first.entities, 2*first.shards)
	first.role = r.IntN(2)
	second := typeSpec{name: "u", role: 1, shards: r.Between(1, 6), state: r.Coin()}
	second.entities = r.Between(1, 2*second.shards)
	s.types = append(s.types, second)
}

// drawPolicy takes a partition policy other than the default in a third of the runs.
// With AssumeCrash every part goes on by design: what is left to show is that a healed
// network ends in one cluster that serves.
func (s *swarm) drawPolicy(r *virtual.Rand) {
	if s.orderly || !r.Chance(33) {
		return
	}
	after := s.removeAfter + s.lease + r.Duration(time.Millisecond, 2*time.Second)
	s.policy = []gossip.Policy{
		gossip.StaticQuorum{N: r.Between(1, s.nodes)}, gossip.StaticQuorum{N: r.Between(1, s.nodes/2+1)},
		gossip.KeepOldest{}, gossip.KeepOldest{}, gossip.KeepOldest{}, gossip.AssumeCrash{After: after},
	}[r.IntN(6)]
	switch s.policy.(type) {
	case gossip.AssumeCrash:
		s.evidence, s.wrongEvidence = gossip.EvidenceFull, true
	case gossip.StaticQuorum:
		if s.ending == endSurvivor {
			s.ending = endQuorum // G6 ends at N
		}
	}
}

// hasRole reports whether a host carries a role: all carry the first.
func (s *swarm) hasRole(slot, role int) bool { return role == 0 || s.hostRoles[slot]>>role&1 == 1 }

// hosts reports whether a host may run shards of a type, sooner or later.
func (s *swarm) hosts(slot int, t *typeSpec) bool {
	return s.hasRole(slot, t.role) && t.proxies>>slot&1 == 0 && s.runs(slot, t)
}

// rolesOf lists what a host carries beside the role that all have.
func (s *swarm) rolesOf(slot int) []string {
	var out []string
	for role := 1; role < len(s.roles); role++ {
		if s.hasRole(slot, role) {
			out = append(out, s.roles[role])
		}
	}
	return out
}

// drawApart makes a run of two clusters, and turns off the settings that need a single one.
func (s *swarm) drawApart(r *virtual.Rand, cfg *Config) {
	plain := cfg.Mutant.String() == "" && cfg.onView == nil // planted bugs keep their seeds
	if !cfg.apart && (!plain || !r.Chance(10)) || s.nodes < 2 || s.orderly || s.aim != aimNone {
		return
	}
	s.apart = true
	s.policy, s.forged, s.wrongEvidence, s.driftBeyond, s.clientWrites = nil, false, false, false, false
	s.ending, s.minMembers = endAll, 1
	s.duration += 3 * time.Second
	for i := range s.types {
		s.types[i].state = false
	}
}

// drawDeclines draws which processes decline, beside the proxies.
func (s *swarm) drawDeclines(r *virtual.Rand) {
	s.refusals = []int{0, 0, 25, 60}[r.IntN(4)]
	for i := range s.types {
		if r.Chance(30) {
			s.types[i].absent = r.IntN(1 << s.nodes)
			s.types[i].late = s.types[i].absent & r.IntN(1<<s.nodes)
		}
	}
}

// runs reports whether a host runs a type, as a host or a proxy, sooner or later.
func (s *swarm) runs(slot int, t *typeSpec) bool {
	return t.absent>>slot&1 == 0 || t.late>>slot&1 == 1
}

// drawDisks draws whether words are durable.
func (s *swarm) drawDisks(r *virtual.Rand, cfg *Config) {
	plain := cfg.Mutant.String() == "" && cfg.onView == nil // planted bugs keep their seeds
	if !cfg.disks && (!plain || !r.Chance(25)) || s.orderly || s.aim != aimNone || s.apart {
		return
	}
	s.disks, s.clientWrites = true, true
	if s.restartAll = r.Coin(); r.Coin() {
		s.ending = endAll
	}
	s.diskEvery = r.Duration(200*time.Millisecond, 3*time.Second)
}

func (s *swarm) drawTrouble(r *virtual.Rand, cfg *Config) {
	plain := cfg.Mutant.String() == "" && cfg.onView == nil // planted bugs keep their seeds
	if s.orderly || s.aim != aimNone || !plain && !cfg.trouble {
		return
	}
	s.corrupt, s.blocks = r.Chance(25) || cfg.trouble, r.Chance(25) || cfg.trouble
}

// drawRings draws whether cuts may be rings.
func (s *swarm) drawRings(r *virtual.Rand, cfg *Config) {
	plain := cfg.Mutant.String() == "" && cfg.onView == nil // planted bugs keep their seeds
	if !s.orderly && s.aim == aimNone {
		s.rings = cfg.rings || plain && s.partition && r.Chance(20)
	}
}

// ringMin is the least number of hosts in which a ring cuts a pair off.
const ringMin = 4
