package membership

import (
	"log/slog"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// actions holds the requests of the evidence and forming machines to the loop.
type actions struct {
	// core are events for the view core.
	core []view.Event
	// events are for subscribers.
	events []Event
	send   []outgoing
	learn  []transport.Peer
	// unlearn and forget end the connections with nodes, for now and for good.
	unlearn, forget []gossip.NodeID
	// doubt names nodes whose next sign of life must be reported immediately; trust ends
	// it.
	doubt, trust []gossip.NodeID
	// show names nodes outside our view to which it must be sent: they may be in another
	// lineage of the same cluster, and one of the two must yield.
	show []gossip.NodeID
	// probe names contact points to dial, lookAt hints of discovery.
	probe  []string
	lookAt []transport.Peer
	// oracle names nodes about which to ask the oracle, inquire those whose UDP port to
	// probe.
	oracle, inquire []gossip.Node
	// hold names addresses to which discovery's datagrams are held for a moment.
	hold  []string
	notes []note
	// over ends this incarnation, with the reason; quorumLost is set if its view can
	// never act again.
	over       string
	quorumLost bool
	// outranked is set if another cluster continues.
	outranked bool
}

// outgoing is a message of KindEvidence for a node.
type outgoing struct {
	to  gossip.NodeID
	msg message
}

// note is a line for the log and for Status.
type note struct {
	kind    string
	subject gossip.NodeID
	detail  string
	// level is Warn on notes that call for an operator.
	level slog.Level
}

func (a *actions) addEvent(ev Event) { a.events = append(a.events, ev) }

func (a *actions) addNote(kind string, subject gossip.NodeID, detail string) {
	a.notes = append(a.notes, note{kind: kind, subject: subject, detail: detail, level: slog.LevelDebug})
}

// addProgress adds a note that is read while a node starts.
func (a *actions) addProgress(kind string, detail string) {
	a.notes = append(a.notes, note{kind: kind, detail: detail, level: slog.LevelInfo})
}

func (a *actions) addWarning(kind string, detail string) {
	a.notes = append(a.notes, note{kind: kind, detail: detail, level: slog.LevelWarn})
}

// warnOf adds a warning about a peer.
func (a *actions) warnOf(kind string, subject gossip.NodeID, detail string) {
	a.notes = append(a.notes, note{kind: kind, subject: subject, detail: detail, level: slog.LevelWarn})
}

func (a *actions) addMessage(to gossip.NodeID, m message) { a.send = append(a.send, outgoing{to, m}) }

// isEmpty reports whether there are no requests.
func (a *actions) isEmpty() bool {
	return len(a.core) == 0 && len(a.events) == 0 && len(a.send) == 0 && len(a.learn) == 0 &&
		len(a.unlearn) == 0 && len(a.forget) == 0 && len(a.doubt) == 0 && len(a.trust) == 0 &&
		len(a.show) == 0 && len(a.probe) == 0 && len(a.lookAt) == 0 && len(a.oracle) == 0 && len(a.inquire) == 0 &&
		len(a.hold) == 0 && len(a.notes) == 0 && a.over == ""
}
