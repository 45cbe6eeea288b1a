package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// swarm is the configuration that a seed draws first. Each class of fault is on
// with probability one half (swarm testing, Groce 2012): a run with all faults hides the
// bugs that only a few faults together can show.
type swarm struct {
	nodes    int
	duration time.Duration

	ping, lease, removeAfter time.Duration
	driftPPM                 int
	evidence                 gossip.CrashEvidence

	crash, powerLoss, restart, restartAll bool
	pause, slow, partition, oneWay        bool
	reject, flaky, join, leave, bursts    bool
	driftBeyond, lateProofs               bool
	// lateBytes: what an ended process has written arrives up to seconds later.
	lateBytes bool
	// wallJumps: wall clocks are set at every start of a process, and hosts keep files.
	wallJumps bool
	// clocks: clients write a register by wall clocks that jump while processes run.
	clocks bool
	// strangers: a node that is no member speaks the view protocol.
	strangers bool
	// rings: a cut may leave each host its two neighbours in a ring.
	rings bool
	// apart: two clusters of one name start apart and meet.
	apart bool
	// disks: the client's words are durable, and disks fail, one every diskEvery or so.
	disks     bool
	diskEvery time.Duration
	// corrupt: frames are damaged on the way. blocks: handlers block.
	corrupt, blocks bool
	// orderly runs see nothing unplanned: their moves must lose no message (G9).
	orderly bool
	// sealPercent is how often the second signal of a refusal can be had, so that it is
	// certain. forged: hosts whose own firewall rejects answer as a kernel whose process is
	// dead does. plaintext: goodbyes are not authenticated, and so weak.
	sealPercent       int
	forged, plaintext bool
	// wrongEvidence is set when the run may give a certain proof of a living process's
	// death. The documents name the guarantees that then break; only the weaker checks run.
	wrongEvidence bool

	datagrams                            bool
	dropPercent, dupPercent, latePercent int
	late, spike                          time.Duration
	latencyMax                           time.Duration

	faultEvery time.Duration
	ending     ending

	// policy is the partition policy, nil for the default (gossip.KeepMajority).
	policy gossip.Policy
	// announce: a leaving process announces it, and hands its offices over before it goes.
	// together: late hosts start at one moment, and faults are aimed at the views that
	// raise them to voters. strikes: crashes and drains are aimed at moves of shards.
	announce, together, strikes bool
	aim                         aim

	// For the layers above. hostRoles has the roles that each host carries, as bits.
	roles     []string
	hostRoles []int
	types     []typeSpec
	// askPercent of the messages are asks.
	askPercent int
	askMax     time.Duration
	tellEvery  time.Duration
	handleMax  time.Duration
	minMembers int
	bufferMax  int
	// mailboxMax bounds each mailbox; windowBytes and parkedBytes the bytes that a process
	// grants beyond first windows and parks for slow entities.
	mailboxMax                 int
	windowBytes, parkedBytes   uint64
	drain                      bool
	beginTimeout, rebalance    time.Duration
	queueFramesMax, logEntries int
	clientWrites               bool
	// refusals is the chance, in percent, that a process declines in a view to
	// coordinate, as one that was refused.
	refusals int
}

// ending is how a run ends: which hosts must be live again.
type ending uint8

const (
	// endQuorum heals a random quorum and leaves the rest as broken as it is.
	endQuorum ending = iota
	// endSurvivor heals all, waits for calm, then kills all but one (G6).
	endSurvivor
	// endAll heals everything and starts all hosts that are down.
	endAll
)

func (e ending) String() string { return [...]string{"quorum", "survivor", "all"}[e] }

func drawSwarm(r *virtual.Rand, cfg *Config) swarm {
	s := swarm{
		nodes:       []int{1, 2, 2, 3, 3, 3, 4, 5, 5, 6, 7}[r.IntN(11)],
		duration:    r.Duration(3*time.Second, 9*time.Second),
		ping:        100 * time.Millisecond,
		lease:       time.Second,
		removeAfter: 2 * time.Second,
		driftPPM:    []int{200, 1000, 1000, 10_000, 30_000}[r.IntN(5)],
		evidence:    []gossip.CrashEvidence{gossip.EvidenceFull, gossip.EvidenceFull, gossip.EvidenceFull, gossip.EvidenceWithinQuorum, gossip.EvidenceOff}[r.IntN(5)],
	}
	if cfg.Nodes > 0 {
		s.nodes = cfg.Nodes
	}
	if r.Chance(25) {
		s.ping, s.lease, s.removeAfter = 50*time.Millisecond, 400*time.Millisecond, 900*time.Millisecond
	}
	for _, on := range []*bool{&s.crash, &s.powerLoss, &s.restart, &s.restartAll, &s.pause, &s.slow, &s.partition, &s.oneWay,
		&s.reject, &s.flaky, &s.join, &s.leave, &s.bursts, &s.driftBeyond, &s.lateProofs, &s.datagrams, &s.drain, &s.clientWrites} {
		*on = r.Coin()
	}
	if r.Chance(20) || cfg.orderly {
		// Only what is planned happens: joins, leaves, moves.
		orderly := swarm{nodes: s.nodes, duration: s.duration, ping: s.ping, lease: s.lease, removeAfter: s.removeAfter,
			driftPPM: s.driftPPM, evidence: s.evidence, orderly: true, join: true, leave: s.leave && s.slow || cfg.orderly, drain: true, clientWrites: s.clientWrites}
		s = orderly
	}
	s.restartAll = s.restartAll && r.Chance(30)
	s.driftBeyond = s.driftBeyond && r.Chance(10)
	s.reject = s.reject && r.Chance(40)
	s.dropPercent, s.dupPercent, s.latePercent = r.IntN(12), r.IntN(10), r.IntN(10)
	s.late = r.Duration(10*time.Millisecond, 4*time.Second)
	s.spike = r.Duration(time.Millisecond, 400*time.Millisecond)
	s.latencyMax = []time.Duration{300 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond}[r.IntN(3)]
	s.faultEvery = r.Duration(60*time.Millisecond, 1500*time.Millisecond)
	s.ending = []ending{endQuorum, endQuorum, endQuorum, endSurvivor, endAll}[r.IntN(5)]
	if s.orderly {
		s.spike = r.Duration(100*time.Millisecond, 400*time.Millisecond)
		s.ending = endAll
	}
	if s.ending == endSurvivor {
		s.evidence = gossip.EvidenceFull
	}
	s.drawEvidence(virtual.NewRand(cfg.Seed, 20))
	s.drawUpper(r)
	s.drawMore(virtual.NewRand(cfg.Seed, 5), cfg.aim)
	s.drawDeclines(virtual.NewRand(cfg.Seed, 6))
	s.lateBytes = virtual.NewRand(cfg.Seed, 8).Coin() && !s.orderly
	s.wallJumps = virtual.NewRand(cfg.Seed, 9).Coin()
	s.strangers = virtual.NewRand(cfg.Seed, 30).Coin() && cfg.Mutant.String() == "" // planted bugs keep their seeds
	s.drawApart(virtual.NewRand(cfg.Seed, 40), cfg)
	s.drawDisks(virtual.NewRand(cfg.Seed, 42), cfg)
	s.drawTrouble(virtual.NewRand(cfg.Seed, 44), cfg)
	s.drawRings(virtual.NewRand(cfg.Seed, 46), cfg)
	s.drawClocks(virtual.NewRand(cfg.Seed, 48), cfg)
	s.drawRoom(virtual.NewRand(cfg.Seed, 52))
	return s
}

// drawEvidence draws how good proofs of death are. A network that rejects gives weak
// ones, under which every check holds; only a host that rejects in its own name, with
// CrashEvidence full, breaks what is documented.
func (s *swarm) drawEvidence(r *virtual.Rand) {
	s.sealPercent = []int{100, 100, 50, 0}[r.IntN(4)]
	s.plaintext = r.Chance(30)
	s.forged = s.reject && r.Chance(20)
	s.wrongEvidence = s.forged && s.evidence == gossip.EvidenceFull
}

func (s *swarm) drawUpper(r *virtual.Rand) {
	shards := []int{1, 2, 5, 8, 8, 16, 32}[r.IntN(7)]
	s.roles, s.hostRoles = []string{""}, make([]int, s.nodes)
	s.types = []typeSpec{{name: "t", shards: shards, entities: r.Between(1, 2*shards)}}
	s.tellEvery = r.Duration(15*time.Millisecond, 120*time.Millisecond)
	s.handleMax = []time.Duration{0, 2 * time.Millisecond, 60 * time.Millisecond}[r.IntN(3)]
	s.minMembers = 1
	if r.Chance(20) {
		s.minMembers = r.Between(1, s.nodes)
	}
	s.beginTimeout = []time.Duration{5 * time.Second, time.Second, 300 * time.Millisecond}[r.IntN(3)]
	s.rebalance = []time.Duration{2 * time.Second, 300 * time.Millisecond, 300 * time.Millisecond}[r.IntN(3)]
	s.queueFramesMax = []int{8, 64, 256, 256}[r.IntN(4)]
	s.logEntries = []int{0, 0, 4}[r.IntN(3)]
	s.bufferMax = []int{1, 8, 64, 64}[r.IntN(4)]
}

// drawRoom draws how much room messages find at a home.
func (s *swarm) drawRoom(r *virtual.Rand) {
	s.mailboxMax = []int{4, 16, 64, 512}[r.IntN(4)]
	s.windowBytes = []uint64{0, 64 << 10, 4 << 20}[r.IntN(3)]
	s.parkedBytes = []uint64{0, 4 << 10, 1 << 20}[r.IntN(3)]
}

// drawClocks draws whether there is a register, and clocks that jump.
func (s *swarm) drawClocks(r *virtual.Rand, cfg *Config) {
	plain := cfg.Mutant.String() == "" && cfg.onView == nil // planted bugs keep their seeds
	s.clocks = (cfg.clocks || plain && r.Chance(25)) && !s.orderly && s.aim == aimNone && !s.apart
}

// storeCount is the number of replicators of a host that carries all roles.
func (s *swarm) storeCount() int { return len(s.roles) + int(b2u(s.clocks)) }

// roleOf returns the number of the role of a replicator.
func (s *swarm) roleOf(store int) int { return store % len(s.roles) }
