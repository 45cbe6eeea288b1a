// Package seed draws the configuration of a run from its seed: the hosts, the types, which
// faults may happen, and how the run ends. The same seed and Options give the same Config.
package seed

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Options are what the caller of a run fixes, before the seed draws the rest.
type Options struct {
	Seed uint64
	// Nodes is the number of hosts, 0 if the seed draws it, and Shards that of the first type.
	Nodes, Shards int
	// Narrow leaves out stamps' clocks that jump, clusters that meet, failing disks, damaged
	// frames, blocked handlers, rings, changing rates, pauses
	// inside steps and reused addresses, unless one of them is asked for below.
	Narrow bool
	// Edges has the rates of clocks change, pauses strike inside steps, and addresses of dead
	// processes be reused, in every run.
	Edges bool
	// Requests has clients of the replicators make all kinds of requests in every run.
	Requests bool
	// Reliable has reliable producers in every run.
	Reliable bool
	// Replicated has states replicated in every run.
	Replicated bool
	// Daemons has a daemon in every run.
	Daemons bool
	// Remembered has entities that need no message in every run.
	Remembered bool
	// Former leaves out what seeds draw since November 2026, so that seeds which once failed keep
	// their runs.
	Former bool
	// NoStrangers leaves the stranger out that speaks the view protocol.
	NoStrangers bool
	// Orderly runs see nothing but joins, leaves and moves. In apart runs, two clusters meet;
	// in runs with clocks, the clocks of stamps jump; with trouble, frames are damaged and
	// handlers block; with rings, cuts are rings; with disks, words are durable.
	Orderly, Apart, Clocks, Trouble, Rings, Disks bool
	// Weak has a setting of each run void some guarantees (Weakens).
	Weak bool
	// Aim is the aim of the run.
	Aim Aim
	// Given, if set, is the configuration, of which nothing is drawn.
	Given *Config
}

// Clone returns a copy that shares no memory with s.
func (s *Config) Clone() Config {
	c := *s
	c.Roles, c.HostRoles, c.Types = slices.Clone(s.Roles), slices.Clone(s.HostRoles), slices.Clone(s.Types)
	return c
}

// Config is the configuration that a seed draws first. Each class of fault is on
// with probability one half (swarm testing, Groce 2012): a run with all faults hides the
// bugs that only a few faults together can show.
type Config struct {
	Nodes    int
	Duration time.Duration
	// PackFrom is the number of members from which views are sent as differences, 0 for that of
	// production.
	PackFrom int

	Ping, Lease, RemoveAfter time.Duration
	DriftPPM                 int
	Evidence                 gossip.CrashEvidence

	Crash, PowerLoss, Restart, RestartAll bool
	Pause, Slow, Partition, OneWay        bool
	Reject, Flaky, Join, Leave, Bursts    bool
	DriftBeyond, LateProofs               bool
	// LateBytes: what an ended process has written arrives up to seconds later.
	LateBytes bool
	// WallJumps: wall clocks are set at every start of a process, and hosts keep files.
	WallJumps bool
	// Freeze: a pause may stop the clock of its process, too.
	Freeze bool
	// Rates: the rates of clocks change during the run, within the bound.
	Rates bool
	// StepPauses: a pause may strike between the step of a core and the sending of its messages.
	StepPauses bool
	// Reuse: the address of a dead process goes to another one, of this cluster or another.
	Reuse bool
	// Clocks: clients write a register by wall clocks that jump while processes run.
	Clocks bool
	// Strangers: a node that is no member speaks the view protocol.
	Strangers bool
	// Rings: a cut may leave each host its two neighbours in a ring.
	Rings bool
	// Apart: two clusters of one name start apart and meet.
	Apart bool
	// Disks: the client's words are durable, and disks fail, one every DiskEvery or so.
	Disks     bool
	DiskEvery time.Duration
	// Corrupt: frames are damaged on the way. Blocks: handlers block.
	Corrupt, Blocks bool
	// Orderly runs see nothing unplanned: their moves must lose no message (G9).
	Orderly bool
	// SealPercent is how often the second signal of a refusal can be had, so that it is
	// certain. Forged: hosts whose own firewall rejects answer as a kernel whose process is
	// dead does. Plaintext: goodbyes are not authenticated, and so weak.
	SealPercent       int
	Forged, Plaintext bool
	// WrongEvidence is set when the run may give a certain proof of a living process's
	// death. GUARANTEES.md names the guarantees that then break (Weakens).
	WrongEvidence bool

	Datagrams                            bool
	DropPercent, DupPercent, LatePercent int
	Late, Spike                          time.Duration
	LatencyMax                           time.Duration

	// LineBytes is how many bytes a second the line of a host sends until faults end, 0 for any.
	LineBytes int `json:",omitempty"`

	FaultEvery time.Duration
	Ending     Ending

	// Policy is the partition policy, nil for the default (gossip.KeepMajority).
	Policy gossip.Policy
	// Announce: a leaving process announces it, and hands its offices over before it goes.
	// Together: late hosts start at one moment, and faults are aimed at the views that
	// raise them to voters. Strikes: crashes and drains are aimed at moves of shards.
	Announce, Together, Strikes bool
	Aim                         Aim

	// For the layers above. HostRoles has the roles that each host carries, as bits.
	Roles     []string
	HostRoles []int
	Types     []Type
	// AskPercent of the messages are asks.
	AskPercent int
	AskMax     time.Duration
	TellEvery  time.Duration
	HandleMax  time.Duration
	MinMembers int
	BufferMax  int
	// MailboxMax bounds each mailbox; WindowBytes and ParkedBytes the bytes that a process
	// grants beyond first windows and parks for slow entities.
	MailboxMax                 int
	WindowBytes, ParkedBytes   uint64
	Drain                      bool
	BeginTimeout, Rebalance    time.Duration
	QueueFramesMax, LogEntries int
	// FrameBytes bounds a message of a replicator, 0 for the bound of production: larger ones are
	// cut into parts.
	FrameBytes int
	// Scratch: clients also create, change and delete keys that no checker reads.
	Scratch      bool
	ClientWrites bool
	// Requests: clients also write maps by stamps and durable keys, plan changes outside of the
	// step, read and call off, and make requests that must be refused. What the shells ask of the
	// cores for operators is asked.
	Requests bool
	// PartBytes is the size from which values are compared in parts, FetchKeys the number of keys
	// that an exchange asks for together; 0 for those of production.
	PartBytes, FetchKeys int
	// Retain is the least time for which deletions of durable keys are remembered, PruneEvery the
	// interval of rounds of forgetting; 0 for those of production.
	Retain, PruneEvery time.Duration
	// Unauthenticated: clusters that meet have no secrets, so one yields only to as many nodes of
	// the other as it has itself.
	Unauthenticated bool
	// Versions: processes run releases 1 and 2 of the application.
	Versions bool
	// Forlorn: an incarnation that its view core finds beyond help ends, as in production.
	Forlorn bool
	// HeldBytes bounds the states that wait at a process, PartialMax is how long a part of them
	// waits for the next one; 0 for those of production. BulkBytes bounds a chunk of states that a
	// connection carries, 0 for no bound.
	HeldBytes, BulkBytes int
	// PageBytes bounds a message between replicas of states, 0 for the bound of production.
	PageBytes  int
	PartialMax time.Duration
	// Refusals is the chance, in percent, that a process declines in a view to
	// coordinate, as one that was refused.
	Refusals int
}

// BeyondFactor is by how much a clock beyond the bound may exceed it.
const BeyondFactor = 30

// Weakens lists the settings of the run that void some guarantees (GUARANTEES.md, G1), as a
// campaign counts them. The checkers of an empty list judge in their strict forms.
func (s *Config) Weakens() (settings []string) {
	_, assumes := s.Policy.(gossip.AssumeCrash)
	for _, w := range []struct {
		on   bool
		name string
	}{
		{assumes, "assumed crashes"}, {s.WrongEvidence && !assumes, "wrong evidence"}, {s.DriftBeyond, "clocks beyond the bound"},
		{s.Freeze, "clocks that stand still"},
	} {
		if w.on {
			settings = append(settings, w.name)
		}
	}
	return settings
}

// Ending is how a run ends: which hosts must be live again.
type Ending uint8

const (
	// EndQuorum heals a random quorum and leaves the rest as broken as it is.
	EndQuorum Ending = iota
	// EndSurvivor heals all, waits for calm, then kills all but one (G6).
	EndSurvivor
	// EndAll heals everything and starts all hosts that are down.
	EndAll
)

// String returns the name of an ending.
func (e Ending) String() string { return [...]string{"quorum", "survivor", "all"}[e] }

// Aim is the moment at which the faults of a run strike; most runs have AimNone.
type Aim uint8

const (
	AimNone Aim = iota
	// AimRaise: several join at one moment, and links break when they become voters.
	AimRaise
	// AimRemoval: a member that is cut off from the leader only is removed, and links break
	// when the leader has committed the removal.
	AimRemoval
	aims
)

// String returns the name of an aim.
func (a Aim) String() string { return [...]string{"none", "raise", "removal"}[a] }

// RingMin is the least number of hosts in which a ring cuts a pair off.
const RingMin = 4

// DrainPatience is how long a process drains at most. Entities that are left after it are
// lost, as GUARANTEES documents. Orderly runs allow as long as the command does: in a
// network this slow, with queues this short, a drain may exceed two seconds.
func (s *Config) DrainPatience() time.Duration {
	if s.Orderly {
		return 10 * time.Second
	}
	return 2 * time.Second
}

// Type is one entity type of a run, the same on all hosts.
type Type struct {
	Name string
	// Role is the number of the type's role.
	Role             int
	Shards, Entities int
	// State: entities have a state that planned moves carry along.
	State bool
	// Reliable: each process has a reliable producer for the type.
	Reliable bool `json:",omitempty"`
	// Replicas is the number of processes that hold each state, 0 if states are not replicated.
	Replicas int `json:",omitempty"`
	// Workers is the number of workers of the first plan of a daemon, at most Shards; 0 if the type
	// is none.
	Workers int `json:",omitempty"`
	// AlwaysOn: one entity of each shard always must run, that of the shard's number. The only one of
	// a type with one shard is a singleton.
	AlwaysOn bool `json:",omitempty"`
	// Remembered is how many remembered entities a process starts in a second, 0 if they are not
	// remembered. Moved: the application had other shards before, so that ids of its entities are
	// remembered in wrong ones.
	Remembered int  `json:",omitempty"`
	Moved      bool `json:",omitempty"`
	// Proxies are the hosts that only send, Absent those that do not run the type, and Late
	// those of the absent that run it from some moment on. All are bits by host.
	Proxies, Absent, Late int
}

// StoreCount is the number of replicators of a host that carries all roles.
func (s *Config) StoreCount() int {
	if s.Clocks {
		return len(s.Roles) + 1
	}
	return len(s.Roles)
}

// RoleOf returns the number of the role of a replicator.
func (s *Config) RoleOf(store int) int { return store % len(s.Roles) }

// HasRole reports whether a host carries a role: all carry the first.
func (s *Config) HasRole(slot, role int) bool { return role == 0 || s.HostRoles[slot]>>role&1 == 1 }

// Hosts reports whether a host may run shards of a type, sooner or later.
func (s *Config) Hosts(slot int, t *Type) bool {
	return s.HasRole(slot, t.Role) && t.Proxies>>slot&1 == 0 && s.Runs(slot, t)
}

// RolesOf lists what a host carries beside the role that all have.
func (s *Config) RolesOf(slot int) []string {
	var out []string
	for role := 1; role < len(s.Roles); role++ {
		if s.HasRole(slot, role) {
			out = append(out, s.Roles[role])
		}
	}
	return out
}

// Runs reports whether a host runs a type, as a host or a proxy, sooner or later.
func (s *Config) Runs(slot int, t *Type) bool {
	return t.Absent>>slot&1 == 0 || t.Late>>slot&1 == 1
}
