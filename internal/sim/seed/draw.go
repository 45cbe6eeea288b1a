package seed

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Draw draws a configuration.
func Draw(cfg *Options) Config {
	if cfg.Given != nil {
		return cfg.Given.Clone()
	}
	r := virtual.NewRand(cfg.Seed, 0)
	s := Config{
		Nodes:       []int{1, 2, 2, 3, 3, 3, 4, 5, 5, 6, 7}[r.IntN(11)],
		Duration:    r.Duration(3*time.Second, 9*time.Second),
		Ping:        100 * time.Millisecond,
		Lease:       time.Second,
		RemoveAfter: 2 * time.Second,
		DriftPPM:    []int{200, 1000, 1000, 10_000, 30_000}[r.IntN(5)],
		Evidence:    []gossip.CrashEvidence{gossip.EvidenceFull, gossip.EvidenceFull, gossip.EvidenceFull, gossip.EvidenceWithinQuorum, gossip.EvidenceOff}[r.IntN(5)],
	}
	if cfg.Nodes > 0 {
		s.Nodes = cfg.Nodes
	}
	if r.Chance(25) {
		s.Ping, s.Lease, s.RemoveAfter = 50*time.Millisecond, 400*time.Millisecond, 900*time.Millisecond
	}
	for _, on := range []*bool{&s.Crash, &s.PowerLoss, &s.Restart, &s.RestartAll, &s.Pause, &s.Slow, &s.Partition, &s.OneWay,
		&s.Reject, &s.Flaky, &s.Join, &s.Leave, &s.Bursts, &s.DriftBeyond, &s.LateProofs, &s.Datagrams, &s.Drain, &s.ClientWrites} {
		*on = r.Coin()
	}
	if r.Chance(20) || cfg.Orderly {
		// Only what is planned happens: joins, leaves, moves.
		orderly := Config{Nodes: s.Nodes, Duration: s.Duration, Ping: s.Ping, Lease: s.Lease, RemoveAfter: s.RemoveAfter,
			DriftPPM: s.DriftPPM, Evidence: s.Evidence, Orderly: true, Join: true, Leave: s.Leave && s.Slow || cfg.Orderly, Drain: true, ClientWrites: s.ClientWrites}
		s = orderly
	}
	s.RestartAll = s.RestartAll && r.Chance(30)
	s.DriftBeyond = s.DriftBeyond && r.Chance(10)
	s.Reject = s.Reject && r.Chance(40)
	s.DropPercent, s.DupPercent, s.LatePercent = r.IntN(12), r.IntN(10), r.IntN(10)
	s.Late = r.Duration(10*time.Millisecond, 4*time.Second)
	s.Spike = r.Duration(time.Millisecond, 400*time.Millisecond)
	s.LatencyMax = []time.Duration{300 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond}[r.IntN(3)]
	s.FaultEvery = r.Duration(60*time.Millisecond, 1500*time.Millisecond)
	s.Ending = []Ending{EndQuorum, EndQuorum, EndQuorum, EndSurvivor, EndAll}[r.IntN(5)]
	if s.Orderly {
		s.Spike = r.Duration(100*time.Millisecond, 400*time.Millisecond)
		s.Ending = EndAll
	}
	if s.Ending == EndSurvivor {
		s.Evidence = gossip.EvidenceFull
	}
	s.drawEvidence(virtual.NewRand(cfg.Seed, 20))
	s.drawLoad(r)
	s.drawMore(virtual.NewRand(cfg.Seed, 5), cfg.Aim)
	s.drawDeclines(virtual.NewRand(cfg.Seed, 6))
	s.LateBytes = virtual.NewRand(cfg.Seed, 8).Coin() && !s.Orderly
	s.WallJumps = virtual.NewRand(cfg.Seed, 9).Coin()
	s.Strangers = virtual.NewRand(cfg.Seed, 30).Coin() && !cfg.NoStrangers
	s.drawApart(virtual.NewRand(cfg.Seed, 40), cfg)
	s.drawDisks(virtual.NewRand(cfg.Seed, 42), cfg)
	s.drawTrouble(virtual.NewRand(cfg.Seed, 44), cfg)
	s.drawRings(virtual.NewRand(cfg.Seed, 46), cfg)
	s.drawClocks(virtual.NewRand(cfg.Seed, 48), cfg)
	s.drawRoom(virtual.NewRand(cfg.Seed, 52))
	s.drawSizes(virtual.NewRand(cfg.Seed, 57), cfg)
	s.drawEdges(virtual.NewRand(cfg.Seed, 61), cfg)
	s.drawWeak(virtual.NewRand(cfg.Seed, 54), cfg)
	s.drawRequests(virtual.NewRand(cfg.Seed, 63), cfg)
	s.drawReliable(virtual.NewRand(cfg.Seed, 65), cfg)
	s.drawMoves(virtual.NewRand(cfg.Seed, 67), cfg)
	s.drawReplicated(virtual.NewRand(cfg.Seed, 70), cfg)
	s.drawWithoutMessages(cfg)
	s.drawLine(virtual.NewRand(cfg.Seed, 78), cfg)
	return s
}

// drawLine draws whether the lines of hosts are so narrow that frames wait for them.
func (s *Config) drawLine(r *virtual.Rand, cfg *Options) {
	if !cfg.Former && !cfg.Narrow && !s.Orderly && r.Chance(8) {
		s.LineBytes = []int{50_000, 200_000, 1_000_000}[r.IntN(3)]
	}
}

// drawWithoutMessages draws types whose entities run without messages.
func (s *Config) drawWithoutMessages(cfg *Options) {
	s.drawDaemon(virtual.NewRand(cfg.Seed, 74), cfg)
	s.drawEntities(virtual.NewRand(cfg.Seed, 80), cfg)
}

// drawDaemon draws a daemon: one more type, with a worker in each shard that its plan runs.
func (s *Config) drawDaemon(r *virtual.Rand, cfg *Options) {
	if cfg.Former || s.Apart || cfg.Shards > 0 || !cfg.Daemons && (cfg.Narrow || !r.Chance(12)) {
		return
	}
	shards := r.Between(2, 6)
	t := Type{Name: "w", Role: r.IntN(len(s.Roles)), Shards: shards, Entities: shards, Workers: r.Between(1, shards)}
	s.drawHosts(r, &t)
	s.Types = append(s.Types, t)
}

// drawEntities draws two more types: with entities that always must run, and with such that are
// remembered.
func (s *Config) drawEntities(r *virtual.Rand, cfg *Options) {
	if cfg.Former || s.Apart || cfg.Shards > 0 || !cfg.Remembered && (cfg.Narrow || !r.Chance(12)) {
		return
	}
	shards := []int{1, 1, 1, 2, 4}[r.IntN(5)]
	always := Type{Name: "a", Role: r.IntN(len(s.Roles)), Shards: shards, Entities: shards, AlwaysOn: true}
	s.drawHosts(r, &always)
	shards = r.Between(1, 5)
	remembered := Type{Name: "r", Role: r.IntN(len(s.Roles)), Shards: shards, Entities: shards * r.Between(2, 4), Remembered: []int{5, 20, 100, 500}[r.IntN(4)], Moved: r.Chance(30) && shards > 1}
	s.drawHosts(r, &remembered)
	s.Types = append(s.Types, always, remembered)
}

// drawHosts draws the hosts that do not run a type, or run it later.
func (s *Config) drawHosts(r *virtual.Rand, t *Type) {
	if r.Chance(30) {
		t.Absent = r.IntN(1 << min(s.Nodes, bitsMax))
		t.Late = t.Absent & r.IntN(1<<min(s.Nodes, bitsMax))
	}
}

// drawReplicated draws which types have replicated states, and on how many processes.
func (s *Config) drawReplicated(r *virtual.Rand, cfg *Options) {
	if cfg.Former || s.Apart || cfg.Shards > 0 || !cfg.Replicated && (cfg.Narrow || !r.Chance(20)) {
		return
	}
	for i := range s.Types {
		if t := &s.Types[i]; i == 0 || r.Coin() {
			t.Replicas, t.State, t.Reliable = []int{2, 2, 3, 3, 3, 5}[r.IntN(6)], false, false
		}
	}
	s.PageBytes = []int{0, 0, 150}[r.IntN(3)]
}

// drawEvidence draws how good proofs of death are. A network that rejects gives weak
// ones, under which every check holds; only a host that rejects in its own name, with
// CrashEvidence full, breaks what is documented.
func (s *Config) drawEvidence(r *virtual.Rand) {
	s.SealPercent = []int{100, 100, 50, 0}[r.IntN(4)]
	s.Plaintext = r.Chance(30)
	s.Forged = s.Reject && r.Chance(20)
	s.WrongEvidence = s.Forged && s.Evidence == gossip.EvidenceFull
}

// drawSizes draws from how many members on views are sent as differences, and takes the number
// of shards that the caller fixes.
func (s *Config) drawSizes(r *virtual.Rand, cfg *Options) {
	if !cfg.Narrow && r.Chance(25) {
		s.PackFrom = r.Between(2, 4)
	}
	s.Freeze = !cfg.Narrow && r.Chance(4) && s.Pause && !s.Apart
	if parts := virtual.NewRand(cfg.Seed, 58); !cfg.Narrow && parts.Chance(12) {
		s.FrameBytes = parts.Between(300, 1200)
	}
	s.Scratch = !cfg.Narrow && virtual.NewRand(cfg.Seed, 59).Chance(25)
	if cfg.Shards > 0 {
		s.Types[0].Shards, s.Types[0].Entities = cfg.Shards, cfg.Shards
	}
}

// drawWeak draws a setting that voids some guarantees, and what brings it to bear, if asked to.
func (s *Config) drawWeak(r *virtual.Rand, cfg *Options) {
	if !cfg.Weak || s.Orderly || s.Apart || s.Aim != AimNone {
		return
	}
	switch s.Partition = true; r.IntN(4) {
	case 0:
		s.Evidence, s.Policy = gossip.EvidenceFull, gossip.AssumeCrash{After: s.RemoveAfter + s.Lease + r.Duration(time.Millisecond, 2*time.Second)}
		s.WrongEvidence = true
	case 1:
		s.Evidence, s.Reject, s.Forged, s.WrongEvidence = gossip.EvidenceFull, true, true, true
		s.SealPercent = max(s.SealPercent, 50)
	case 2:
		s.Pause, s.Freeze = true, true
	default:
		s.DriftBeyond = true
	}
}

// drawLoad draws the sizes and times of the layers above the view.
func (s *Config) drawLoad(r *virtual.Rand) {
	shards := []int{1, 2, 5, 8, 8, 16, 32}[r.IntN(7)]
	s.Roles, s.HostRoles = []string{""}, make([]int, s.Nodes)
	s.Types = []Type{{Name: "t", Shards: shards, Entities: r.Between(1, 2*shards)}}
	s.TellEvery = r.Duration(15*time.Millisecond, 120*time.Millisecond)
	s.HandleMax = []time.Duration{0, 2 * time.Millisecond, 60 * time.Millisecond}[r.IntN(3)]
	s.MinMembers = 1
	if r.Chance(20) {
		s.MinMembers = r.Between(1, s.Nodes)
	}
	s.BeginTimeout = []time.Duration{5 * time.Second, time.Second, 300 * time.Millisecond}[r.IntN(3)]
	s.Rebalance = []time.Duration{2 * time.Second, 300 * time.Millisecond, 300 * time.Millisecond}[r.IntN(3)]
	s.QueueFramesMax = []int{8, 64, 256, 256}[r.IntN(4)]
	s.LogEntries = []int{0, 0, 4}[r.IntN(3)]
	s.BufferMax = []int{1, 8, 64, 64}[r.IntN(4)]
}

// drawRoom draws how much room messages find at a home.
func (s *Config) drawRoom(r *virtual.Rand) {
	s.MailboxMax = []int{4, 16, 64, 512}[r.IntN(4)]
	s.WindowBytes = []uint64{0, 64 << 10, 4 << 20}[r.IntN(3)]
	s.ParkedBytes = []uint64{0, 4 << 10, 1 << 20}[r.IntN(3)]
}

// drawClocks draws whether there is a register, and clocks that jump.
func (s *Config) drawClocks(r *virtual.Rand, cfg *Options) {
	plain := !cfg.Narrow
	s.Clocks = (cfg.Clocks || plain && r.Chance(25)) && !s.Orderly && s.Aim == AimNone && !s.Apart
}

// takeAim turns off all faults that do not serve the run's aim.
func (s *Config) takeAim(r *virtual.Rand, a Aim) {
	if s.Orderly || a == AimNone {
		return
	}
	s.Aim = a
	s.Duration = r.Duration(4*time.Second, 6*time.Second)
	s.PowerLoss, s.RestartAll, s.Pause, s.Slow, s.Partition, s.Flaky, s.Leave, s.Reject, s.DriftBeyond = false, false, false, false, false, false, false, false, false
	s.Crash, s.Bursts, s.Together, s.Join = false, false, a == AimRaise, a == AimRaise
	s.WrongEvidence, s.Policy = false, nil
	s.Nodes = r.Between(4, 5) + int(a&AimRaise)
	s.HostRoles = make([]int, s.Nodes)
	s.FaultEvery = r.Duration(400*time.Millisecond, time.Second)
}

// drawMore draws the later additions to the configuration, from a stream of their own.
func (s *Config) drawMore(r *virtual.Rand, a Aim) {
	s.Announce, s.Strikes = r.Coin(), r.Coin() && !s.Orderly
	s.Together = s.Join && r.Chance(25) && !s.Orderly
	s.drawPolicy(r)
	if r.Chance(6) && a == AimNone {
		a = Aim(r.IntN(int(aims)))
	}
	s.takeAim(r, a)
	s.AskPercent = []int{0, 30, 60}[r.IntN(3)]
	s.AskMax = []time.Duration{200 * time.Millisecond, 2 * time.Second, 10 * time.Second}[r.IntN(3)]
	s.Types[0].State = r.Chance(60)
	if r.Chance(35) {
		s.drawRoles(r)
	}
	if r.Chance(30) {
		for i := range s.Types {
			s.Types[i].Proxies = r.IntN(1 << min(s.Nodes, bitsMax))
		}
	}
}

// drawRoles spreads two types over two roles, or both over one.
func (s *Config) drawRoles(r *virtual.Rand) {
	s.Roles = append(s.Roles, "back")
	for i := range s.HostRoles {
		if r.Chance(60) {
			s.HostRoles[i] |= 2
		}
	}
	first := &s.Types[0]
	first.Shards = min(first.Shards, 8)
	first.Entities = min(first.Entities, 2*first.Shards)
	first.Role = r.IntN(2)
	second := Type{Name: "u", Role: 1, Shards: r.Between(1, 6), State: r.Coin()}
	second.Entities = r.Between(1, 2*second.Shards)
	s.Types = append(s.Types, second)
}

// drawPolicy takes a partition policy other than the default in a third of the runs.
// With AssumeCrash every part continues by design; the run then shows that a healed
// network ends in one cluster that serves.
func (s *Config) drawPolicy(r *virtual.Rand) {
	if s.Orderly || !r.Chance(33) {
		return
	}
	after := s.RemoveAfter + s.Lease + r.Duration(time.Millisecond, 2*time.Second)
	s.Policy = []gossip.Policy{
		gossip.StaticQuorum{N: r.Between(1, s.Nodes)}, gossip.StaticQuorum{N: r.Between(1, s.Nodes/2+1)},
		gossip.KeepOldest{}, gossip.KeepOldest{}, gossip.KeepOldest{}, gossip.AssumeCrash{After: after},
	}[r.IntN(6)]
	switch s.Policy.(type) {
	case gossip.AssumeCrash:
		s.Evidence, s.WrongEvidence = gossip.EvidenceFull, true
	case gossip.StaticQuorum:
		if s.Ending == EndSurvivor {
			s.Ending = EndQuorum // G6 ends at N
		}
	}
}

// drawApart makes a run of two clusters, and turns off the settings that need a single one.
func (s *Config) drawApart(r *virtual.Rand, cfg *Options) {
	plain := !cfg.Narrow
	if !cfg.Apart && (!plain || !r.Chance(10)) || s.Nodes < 2 || s.Orderly || s.Aim != AimNone {
		return
	}
	s.Apart = true
	s.Policy, s.Forged, s.WrongEvidence, s.DriftBeyond, s.ClientWrites = nil, false, false, false, false
	s.Ending, s.MinMembers = EndAll, 1
	s.Duration += 3 * time.Second
	for i := range s.Types {
		s.Types[i].State = false
	}
}

// bitsMax is how many hosts a set of bits holds: hosts beyond it are in no such set.
const bitsMax = 62

// drawDeclines draws which processes decline, beside the proxies.
func (s *Config) drawDeclines(r *virtual.Rand) {
	s.Refusals = []int{0, 0, 25, 60}[r.IntN(4)]
	for i := range s.Types {
		if r.Chance(30) {
			s.Types[i].Absent = r.IntN(1 << min(s.Nodes, bitsMax))
			s.Types[i].Late = s.Types[i].Absent & r.IntN(1<<min(s.Nodes, bitsMax))
		}
	}
}

// drawDisks draws whether words are durable.
func (s *Config) drawDisks(r *virtual.Rand, cfg *Options) {
	plain := !cfg.Narrow
	if !cfg.Disks && (!plain || !r.Chance(25)) || s.Orderly || s.Aim != AimNone || s.Apart {
		return
	}
	s.Disks, s.ClientWrites = true, true
	if s.RestartAll = r.Coin(); r.Coin() {
		s.Ending = EndAll
	}
	s.DiskEvery = r.Duration(200*time.Millisecond, 3*time.Second)
}

// drawTrouble draws whether frames are damaged and handlers block.
func (s *Config) drawTrouble(r *virtual.Rand, cfg *Options) {
	plain := !cfg.Narrow
	if s.Orderly || s.Aim != AimNone || !plain && !cfg.Trouble {
		return
	}
	s.Corrupt, s.Blocks = r.Chance(25) || cfg.Trouble, r.Chance(25) || cfg.Trouble
}

// drawRings draws whether cuts may be rings.
func (s *Config) drawRings(r *virtual.Rand, cfg *Options) {
	plain := !cfg.Narrow
	if !s.Orderly && s.Aim == AimNone {
		s.Rings = cfg.Rings || plain && s.Partition && r.Chance(20)
	}
}

// drawRequests draws whether the clients of the replicators make all kinds of requests, and from
// what sizes and ages on replicas compare values in parts and forget.
func (s *Config) drawRequests(r *virtual.Rand, cfg *Options) {
	if cfg.Former || cfg.Shards > 0 || !cfg.Requests && (cfg.Narrow || !r.Chance(20)) {
		return
	}
	s.Requests, s.Scratch, s.ClientWrites = true, true, s.ClientWrites || !s.Apart
	s.PartBytes = []int{0, 100, 400}[r.IntN(3)]
	s.FetchKeys = []int{0, 2, 4}[r.IntN(3)]
	s.PruneEvery = r.Duration(20*time.Millisecond, 300*time.Millisecond)
	s.Retain = r.Duration(300*time.Millisecond, 2*time.Second)
	s.Versions = r.Coin()
	if !s.Orderly && s.Aim == AimNone && !s.Apart && r.Coin() {
		s.Disks, s.ClientWrites = true, true
		s.DiskEvery = r.Duration(200*time.Millisecond, 3*time.Second)
	}
}

// drawReliable draws which types have reliable producers.
func (s *Config) drawReliable(r *virtual.Rand, cfg *Options) {
	if cfg.Former || s.Apart || !cfg.Reliable && (cfg.Narrow || !r.Chance(25)) {
		return
	}
	for i := range s.Types {
		s.Types[i].Reliable = i == 0 || r.Coin()
	}
}

// drawMoves draws how much room states that move find, and for how long they wait.
func (s *Config) drawMoves(r *virtual.Rand, cfg *Options) {
	s.Forlorn = !cfg.Former
	s.Unauthenticated = s.Apart && !cfg.Former && virtual.NewRand(cfg.Seed, 68).Chance(30)
	if cfg.Former || cfg.Narrow || s.Orderly || !cfg.Reliable && !r.Chance(25) {
		return
	}
	s.HeldBytes, s.BulkBytes = []int{0, 60, 300}[r.IntN(3)], []int{0, 12, 25}[r.IntN(3)]
	s.PartialMax = r.Duration(50*time.Millisecond, 2*time.Second)
}

// drawEdges draws whether the rates of clocks change, pauses strike inside steps, and addresses are
// reused.
func (s *Config) drawEdges(r *virtual.Rand, cfg *Options) {
	plain := !cfg.Narrow
	s.Rates = cfg.Edges || plain && r.Chance(25)
	s.Reuse = (cfg.Edges || plain && r.Chance(25)) && !s.Orderly && s.Aim == AimNone && !s.Apart
	s.StepPauses = (cfg.Edges || plain && r.Chance(25)) && !s.Orderly && s.Aim == AimNone
}
