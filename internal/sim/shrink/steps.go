package shrink

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/sim/seed"
)

// step makes a configuration smaller. It reports whether that changes anything.
type step struct {
	name  string
	apply func(*seed.Config) bool
}

// steps are tried in this order: those that save most first. None of them makes a check stricter.
var steps = slices.Concat([]step{
	{"half of the nodes", func(c *seed.Config) bool { return setNodes(c, c.Nodes/2) }},
	{"one node less", func(c *seed.Config) bool { return setNodes(c, c.Nodes-1) }},
	{"half of the time", func(c *seed.Config) bool { return lower(&c.Duration, c.Duration/2, 200*time.Millisecond) }},
	{"three quarters of the time", func(c *seed.Config) bool { return lower(&c.Duration, c.Duration*3/4, 200*time.Millisecond) }},
	{"one type", func(c *seed.Config) bool { return keepTypes(c) }},
	{"one role", func(c *seed.Config) bool { return keepRole(c) }},
}, faultSteps(), []step{
	{"half of the shards", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool {
			return lower(&t.Shards, t.Shards/2, max(t.Workers, 1)) || lower(&t.Entities, t.Entities/2, 1)
		})
	}},
	{"one entity a shard", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool { return lower(&t.Entities, t.Shards, 1) })
	}},
	{"all hosts run all types", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool { return clearTo(&t.Proxies, 0) || clearTo(&t.Absent, 0) || clearTo(&t.Late, 0) })
	}},
	{"no states", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool { return clearTo(&t.State, false) })
	}},
	{"no reliable messages", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool { return clearTo(&t.Reliable, false) })
	}},
	{"no replicated states", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool { return clearTo(&t.Replicas, 0) })
	}},
	{"no daemon", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool { return clearTo(&t.Workers, 0) })
	}},
	{"no entities that always run", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool { return clearTo(&t.AlwaysOn, false) })
	}},
	{"no remembered entities", func(c *seed.Config) bool {
		return eachType(c, func(t *seed.Type) bool { return clearTo(&t.Remembered, 0) || clearTo(&t.Moved, false) })
	}},
	{"no asks", func(c *seed.Config) bool { return clearTo(&c.AskPercent, 0) }},
	{"fewer messages", func(c *seed.Config) bool {
		return c.TellEvery < time.Second && clearTo(&c.TellEvery, min(2*c.TellEvery, time.Second))
	}},
	{"handlers take no time", func(c *seed.Config) bool { return clearTo(&c.HandleMax, 0) }},
	{"fewer faults", func(c *seed.Config) bool {
		return c.FaultEvery < 1500*time.Millisecond && clearTo(&c.FaultEvery, min(2*c.FaultEvery, 1500*time.Millisecond))
	}},
	{"a quick network", func(c *seed.Config) bool {
		return lower(&c.LatencyMax, 300*time.Microsecond, 300*time.Microsecond) || lower(&c.Spike, time.Millisecond, time.Millisecond)
	}},
	{"lines of any width", func(c *seed.Config) bool { return clearTo(&c.LineBytes, 0) }},
	{"no refusals", func(c *seed.Config) bool { return clearTo(&c.Refusals, 0) }},
	{"whole views", func(c *seed.Config) bool { return clearTo(&c.PackFrom, 0) }},
	{"one member is enough", func(c *seed.Config) bool { return lower(&c.MinMembers, 1, 1) }},
	{"wide buffers", func(c *seed.Config) bool {
		return clearTo(&c.BufferMax, 64) || clearTo(&c.MailboxMax, 512) || clearTo(&c.QueueFramesMax, 256) || clearTo(&c.LogEntries, 0) || clearTo(&c.FrameBytes, 0)
	}},
	{"replicas that forget late", func(c *seed.Config) bool { return clearTo(&c.Retain, 0) || clearTo(&c.PruneEvery, 0) }},
	{"values that are compared whole", func(c *seed.Config) bool { return clearTo(&c.PartBytes, 0) || clearTo(&c.FetchKeys, 0) }},
	{"room for states", func(c *seed.Config) bool {
		return clearTo(&c.HeldBytes, 0) || clearTo(&c.BulkBytes, 0) || clearTo(&c.PartialMax, 0)
	}},
	{"clocks of equal rate", func(c *seed.Config) bool { return lower(&c.DriftPPM, 200, 200) }},
	{"the simplest ending", func(c *seed.Config) bool { return clearTo(&c.Ending, seed.EndAll) }},
})

// faultSteps switch off one class of faults each.
func faultSteps() (all []step) {
	for _, f := range []struct {
		name string
		of   func(*seed.Config) *bool
	}{
		{"crashes", func(c *seed.Config) *bool { return &c.Crash }}, {"power losses", func(c *seed.Config) *bool { return &c.PowerLoss }},
		{"restarts of crashed nodes", func(c *seed.Config) *bool { return &c.Restart }}, {"a restart of all", func(c *seed.Config) *bool { return &c.RestartAll }},
		{"pauses", func(c *seed.Config) *bool { return &c.Pause }}, {"slow nodes", func(c *seed.Config) *bool { return &c.Slow }},
		{"partitions", func(c *seed.Config) *bool { return &c.Partition }}, {"one-way cuts", func(c *seed.Config) *bool { return &c.OneWay }},
		{"rejecting networks", func(c *seed.Config) *bool { return &c.Reject }}, {"broken connections", func(c *seed.Config) *bool { return &c.Flaky }},
		{"late joins", func(c *seed.Config) *bool { return &c.Join }}, {"leaves", func(c *seed.Config) *bool { return &c.Leave }},
		{"bursts", func(c *seed.Config) *bool { return &c.Bursts }}, {"strikes at moves", func(c *seed.Config) *bool { return &c.Strikes }},
		{"late proofs", func(c *seed.Config) *bool { return &c.LateProofs }}, {"late bytes", func(c *seed.Config) *bool { return &c.LateBytes }},
		{"jumps of wall clocks", func(c *seed.Config) *bool { return &c.WallJumps }}, {"jumps of clocks", func(c *seed.Config) *bool { return &c.Clocks }},
		{"pauses inside steps", func(c *seed.Config) *bool { return &c.StepPauses }},
		{"reused addresses", func(c *seed.Config) *bool { return &c.Reuse }},
		{"rates of clocks that change", func(c *seed.Config) *bool { return &c.Rates }},
		{"clocks that stand still", func(c *seed.Config) *bool { return &c.Freeze }},
		{"strangers", func(c *seed.Config) *bool { return &c.Strangers }}, {"rings", func(c *seed.Config) *bool { return &c.Rings }},
		{"failing disks", func(c *seed.Config) *bool { return &c.Disks }}, {"damaged frames", func(c *seed.Config) *bool { return &c.Corrupt }},
		{"handlers that block", func(c *seed.Config) *bool { return &c.Blocks }}, {"datagrams", func(c *seed.Config) *bool { return &c.Datagrams }},
		{"two clusters", func(c *seed.Config) *bool { return &c.Apart }}, {"joins at one moment", func(c *seed.Config) *bool { return &c.Together }},
		{"announcements", func(c *seed.Config) *bool { return &c.Announce }}, {"clients that write", func(c *seed.Config) *bool { return &c.ClientWrites }},
		{"scratch keys", func(c *seed.Config) *bool { return &c.Scratch }},
		{"releases that differ", func(c *seed.Config) *bool { return &c.Versions }},
		{"other requests", func(c *seed.Config) *bool { return &c.Requests }},
		{"draining", func(c *seed.Config) *bool { return &c.Drain }},
	} {
		all = append(all, step{"without " + f.name, func(c *seed.Config) bool { return clearTo(f.of(c), false) }})
	}
	return all
}

// clearTo sets a setting, and reports whether it was another one.
func clearTo[T comparable](setting *T, to T) bool {
	changes := *setting != to
	*setting = to
	return changes
}

// lower lowers a setting, but not below least, and reports whether it was higher.
func lower[T int | time.Duration](setting *T, to, least T) bool {
	to = max(to, least)
	if *setting <= to {
		return false
	}
	*setting = to
	return true
}

// eachType changes the types, and reports whether one changed.
func eachType(c *seed.Config, change func(*seed.Type) bool) (changed bool) {
	for i := range c.Types {
		changed = change(&c.Types[i]) || changed
	}
	return changed
}

// setNodes takes nodes away: those of the highest numbers.
func setNodes(c *seed.Config, nodes int) bool {
	least := 1
	if c.Apart {
		least = 2
	}
	if !lower(&c.Nodes, nodes, least) {
		return false
	}
	c.HostRoles = c.HostRoles[:c.Nodes]
	c.MinMembers = min(c.MinMembers, c.Nodes)
	left := 1<<c.Nodes - 1
	for i := range c.Types {
		t := &c.Types[i]
		t.Proxies, t.Absent, t.Late = t.Proxies&left, t.Absent&left, t.Late&left
	}
	return true
}

// keepTypes keeps the first type.
func keepTypes(c *seed.Config) bool {
	several := len(c.Types) > 1
	c.Types = c.Types[:1]
	return several
}

// keepRole keeps the role that all hosts carry.
func keepRole(c *seed.Config) bool {
	several := len(c.Roles) > 1
	c.Roles = c.Roles[:1]
	clear(c.HostRoles)
	for i := range c.Types {
		c.Types[i].Role = 0
	}
	return several
}
