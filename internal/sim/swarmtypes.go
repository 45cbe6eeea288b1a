package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
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
func (s *swarm) takeAim(r *pcg, a aim) {
	if s.orderly || a == aimNone {
		return
	}
	s.aim = a
	s.duration = r.dur(4*time.Second, 6*time.Second)
	s.powerLoss, s.restartAll, s.pause, s.slow, s.partition, s.flaky, s.leave, s.reject, s.driftBeyond = false, false, false, false, false, false, false, false, false
	s.crash, s.bursts, s.together, s.join = false, false, a == aimRaise, a == aimRaise
	s.wrongEvidence, s.policy = false, nil
	s.nodes = r.between(4, 5) + int(a&aimRaise)
	s.hostRoles = make([]int, s.nodes)
	s.faultEvery = r.dur(400*time.Millisecond, time.Second)
}

// drawMore draws the later additions to the swarm, from a stream of their own.
func (s *swarm) drawMore(r *pcg, a aim) {
	s.announce, s.strikes = r.coin(), r.coin() && !s.orderly
	s.together = s.join && r.chance(25) && !s.orderly
	s.drawPolicy(r)
	if r.chance(6) && a == aimNone {
		a = aim(r.intn(int(aims)))
	}
	s.takeAim(r, a)
	s.askPercent = []int{0, 30, 60}[r.intn(3)]
	s.askMax = []time.Duration{200 * time.Millisecond, 2 * time.Second, 10 * time.Second}[r.intn(3)]
	s.types[0].state = r.chance(60)
	if r.chance(35) {
		s.drawRoles(r)
	}
	if r.chance(30) {
		for i := range s.types {
			s.types[i].proxies = r.intn(1 << s.nodes)
		}
	}
}

// drawRoles spreads two types over two roles, or both over one.
func (s *swarm) drawRoles(r *pcg) {
	s.roles = append(s.roles, "back")
	for i := range s.hostRoles {
		if r.chance(60) {
			s.hostRoles[i] |= 2
		}
	}
	first := &s.types[0]
	first.shards = min(first.shards, 8)
	first.entities = min(first.entities, 2*first.shards)
	first.role = r.intn(2)
	second := typeSpec{name: "u", role: 1, shards: r.between(1, 6), state: r.coin()}
	second.entities = r.between(1, 2*second.shards)
	s.types = append(s.types, second)
}

// drawPolicy takes a partition policy other than the default in a third of the runs.
// With AssumeCrash every part goes on by design: what is left to show is that a healed
// network ends in one cluster that serves.
func (s *swarm) drawPolicy(r *pcg) {
	if s.orderly || !r.chance(33) {
		return
	}
	after := s.removeAfter + s.lease + r.dur(time.Millisecond, 2*time.Second)
	s.policy = []gossip.Policy{
		gossip.StaticQuorum{N: r.between(1, s.nodes)}, gossip.StaticQuorum{N: r.between(1, s.nodes/2+1)},
		gossip.KeepOldest{}, gossip.KeepOldest{}, gossip.KeepOldest{}, gossip.AssumeCrash{After: after},
	}[r.intn(6)]
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
