package seed

import (
	"fmt"
	"strings"
)

// DescribeFaults lists the classes of faults that may happen.
func (s *Config) DescribeFaults() string {
	var names []string
	for _, f := range []struct {
		on   bool
		name string
	}{
		{s.Crash, "crashes"}, {s.PowerLoss, "power losses"}, {s.RestartAll, "a restart of all"}, {s.Pause, "pauses"}, {s.StepPauses, "pauses inside steps"}, {s.Reuse, "reused addresses"}, {s.Slow, "slow processes"},
		{s.Partition, "partitions"}, {s.Rings, "rings"}, {s.Flaky, "broken connections"}, {s.Datagrams, "lost datagrams"}, {s.Corrupt, "damaged frames"},
		{s.Blocks, "handlers that block"}, {s.Disks, "disks that fail"}, {s.Clocks, "clocks that jump"}, {s.Rates, "clocks that change their rates"}, {s.Join, "late joins"}, {s.Leave, "leaves"},
		{s.Strangers, "a stranger"}, {s.Apart, "two clusters that meet"},
	} {
		if f.on {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// DescribeTypes lists the entity types.
func (s *Config) DescribeTypes() string {
	var names []string
	for i := range s.Types {
		t := &s.Types[i]
		names = append(names, fmt.Sprintf("%s: %d entities in %d shards", t.Name, t.Entities, t.Shards))
	}
	return strings.Join(names, "; ")
}

// Goal describes when a run with this ending ends.
func (e Ending) Goal() string {
	return [...]string{
		"a random quorum, healed among itself, serves each shard", "the only survivor serves each shard", "all nodes are one cluster again and serve each shard",
	}[e]
}
