package membership

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

func TestARefusalWhereItWasNeverReached(t *testing.T) {
	c := newCourt(4)
	x := c.peerOf(9)
	c.on(x, transport.Accepted) // it lives and is connected to us; the address we have is wrong
	v := c.viewOf(x)
	c.run(func(a *actions) { c.onView(c.now, v, a) })
	c.reported = nil
	c.on(x, refused)
	c.pass(500 * time.Millisecond)
	c.on(x, refused)
	c.expect(t, "refused at a wrong address, its own connection stands", "unreachable 1")
}

func (c *court) viewOf(x transport.Peer) *gossip.View {
	return &gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 100}}, {Node: gossip.Node{ID: x.ID, Addr: x.Addr}, Status: gossip.Up}}}
}
