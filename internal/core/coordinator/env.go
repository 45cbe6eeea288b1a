package coordinator

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// env is what the machines of a coordinator share: its settings, the inputs of the shell, the
// step, and the numbers of the term.
type env struct {
	cfg Config
	now clock.Instant
	out *Effects

	view   *gossip.View
	lease  bool
	silent []gossip.NodeID
	wanted map[protocol.ShardID]string

	// term is zero while not in office. Invariant: it is of the view's generation.
	term gossip.Epoch
	// seq is the last number drawn. It grows over all terms.
	seq uint64
	// dirty: a free shard may have become placeable.
	dirty bool
}

// nextToken draws the next token or stamp of this term.
func (v *env) nextToken() protocol.Token {
	v.seq++
	return protocol.Token{Term: v.term, Seq: v.seq}
}

func (v *env) head() protocol.Head {
	return protocol.Head{Type: v.cfg.Type, Term: v.term, View: v.view.Epoch, Seq: v.seq}
}

func (v *env) sendMessage(to gossip.NodeID, m protocol.Message) {
	v.out.Do = append(v.out.Do, Send{To: to, Msg: m})
}

// far refuses a term in a replicated record or a fence that no view can
// have reached. A term below that limit may belong to a view not yet received here.
func (v *env) far(from gossip.NodeID, term gossip.Epoch, what string) bool {
	if v.view == nil || !term.FarBeyond(v.view.Epoch) {
		return false
	}
	v.traceEvent(TraceFar, from, v.termToken(), what+" with the term "+term.String())
	return true
}

// forged reports whether t is of the present term and was not drawn in it: only this
// core draws tokens of its term. A region that obeyed a forged, higher token would leave
// its shard without a home.
func (v *env) forged(t protocol.Token) bool { return t.Term == v.term && t.Seq > v.seq }

// forgedIn reports whether m names such a token.
func (v *env) forgedIn(m protocol.Message) (found bool) {
	protocol.EachToken(m, func(t protocol.Token) { found = found || v.forged(t) })
	return found
}

func (v *env) traceEvent(kind string, n gossip.NodeID, t protocol.Token, detail string) {
	v.out.Trace = append(v.out.Trace, TraceEvent{Kind: kind, Node: n, Token: t, Detail: detail})
}

func (v *env) traceShard(kind string, id protocol.ShardID, n gossip.NodeID, t protocol.Token, detail string) {
	v.out.Trace = append(v.out.Trace, TraceEvent{Kind: kind, Shard: id, HasShard: true, Node: n, Token: t, Detail: detail})
}

// termToken returns the form of the term in a trace.
func (v *env) termToken() protocol.Token { return protocol.Token{Term: v.term} }
