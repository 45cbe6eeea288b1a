package peerage

import "time"

// BreakFiles makes every further write to the node's files of durable keys fail.
func (n *Node) BreakFiles() {
	for _, f := range n.files {
		_ = f.Close()
	}
}

// UseBootClock sets the clock of processes, for settings that came from TestConfig.
func UseBootClock(c *Config) { c.clock = nil }

// CoordinatorRemoveAfter returns the silence after which a coordinator of this node yields.
func (n *Node) CoordinatorRemoveAfter() time.Duration {
	return n.stack.Load().shardingConfig().RemoveAfter
}
