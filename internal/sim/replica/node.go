package replica

import (
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/trace"
)

// Node has the replicators of one process.
type Node struct {
	shared shared
	// stores are by number, nil for those whose role the process does not carry.
	stores []*Driver
	// words are the clients of the roles, register that of the register, nil if there is none.
	words    []*wordClient
	scratch  []*scratchClient
	requests []*requestClient
	register *registerClient
}

// Message is a message of a replicator, on the network.
type Message struct {
	Store int
	Msg   replication.Message
}

// Recode returns the message as its receiver decodes it.
func (m Message) Recode() (any, int, error) {
	encoded := replication.Append(nil, m.Msg)
	decoded, err := replication.Decode(encoded)
	return Message{m.Store, decoded}, len(encoded), err
}

// Describe describes a message of a replicator in a recording.
func (m Message) Describe(*trace.Names) (record.Class, string) {
	return record.Replication, strings.TrimPrefix(fmt.Sprintf("%T", m.Msg), "*replication.")
}

// StartClients starts the clients of the replicators.
func (n *Node) StartClients() {
	for _, c := range n.words {
		c.useWords()
	}
	for _, c := range n.scratch {
		c.useScratch()
	}
	for _, c := range n.requests {
		c.makeRequests()
	}
	if n.register != nil {
		n.register.useRegister()
	}
}

// overwriteStamped writes the register, and in runs with requests the entries of maps in its store.
func (n *Node) overwriteStamped(answer func(error)) {
	n.register.writeValue(func(err error) {
		if err != nil || !n.shared.p.Run.Config.Requests {
			answer(err)
			return
		}
		n.requests[len(n.requests)-1].overwriteMaps(answer)
	})
}

// Stop ends the replicators with their process.
func (n *Node) Stop() { n.shared.on = false }

// Store returns the replicator of a role, nil if the process does not carry the role.
func (n *Node) Store(role int) *Driver { return n.stores[role] }

// Receive takes a message.
func (n *Node) Receive(from gossip.NodeID, m Message) {
	if d := n.stores[m.Store]; d != nil {
		d.step(replication.Received{From: from, Msg: m.Msg})
	}
}

// ViewChanged takes a newer view. Later answers of the replicators belong to it.
func (n *Node) ViewChanged(v *gossip.View) {
	n.shared.view = v
	n.stepAll(replication.ViewChanged{View: v})
}

// LeaseRegained is called when the lease is valid again.
func (n *Node) LeaseRegained() { n.stepAll(replication.LeaseRegained{}) }

// PeerChanged takes the coming and going of connections.
func (n *Node) PeerChanged(id gossip.NodeID, up bool) {
	if up {
		n.stepAll(replication.PeerUp{ID: id})
	} else {
		n.stepAll(replication.PeerLost{ID: id})
	}
}

func (n *Node) stepAll(ev replication.Event) {
	for _, d := range n.carried() {
		d.step(ev)
	}
}

// carried returns the replicators that the process has.
func (n *Node) carried() []*Driver {
	all := make([]*Driver, 0, len(n.stores))
	for _, d := range n.stores {
		if d != nil {
			all = append(all, d)
		}
	}
	return all
}
