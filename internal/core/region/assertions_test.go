//go:build invariants || race

package region

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// TestAssertionsOfRegionsCanFail shows each assertion a state in which it does not hold.
func TestAssertionsOfRegionsCanFail(t *testing.T) {
	c := New(Config{Self: 1, Type: "t", Shards: 4, Hosts: true}, &Floors{})
	order := protocol.HostOrder{Shard: 2, Token: protocol.Token{Term: gossip.FirstEpoch(1), Seq: 5}}
	assert.MustBreak(t, "S1", func() { c.hosts.assertStart(order) })
	c.hosts.lease = true
	c.hosts.list.entryOf(2).phase = stopping
	assert.MustBreak(t, "S11", func() { c.hosts.assertStart(order) })
	c.hosts.list.entryOf(2).phase = none
	c.floors.raise(2, order.Token)
	assert.MustBreak(t, "S7", func() { c.hosts.assertStart(order) })
	c.routes.list.entryOf(2).open = true
	assert.MustBreak(t, "S3", func() { c.routes.confirmBegin(2, protocol.ShardToken{Shard: 2}) })
	c.floors.term = gossip.FirstEpoch(2)
	assert.MustBreak(t, "G2", func() { c.floors.assertTerm(gossip.FirstEpoch(1)) })
}
