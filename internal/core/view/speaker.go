package view

import "github.com/peerage-go/peerage/gossip"

// Only members decide on membership. A node whose handshake succeeded holds a certificate
// of the cluster or, without TLS, has its name: that allows it to ask for admission, and
// nothing else. So a message of any other kind counts only if its sender is in this
// node's view:
//
//	in the view                  every message
//	not in it                    JoinRequest for itself; a question of a former member
//	  brings an older view       is sent ours, as it may have been removed
//	  brings a newer view        not accepted: the members of our view are asked
//	  of a lineage that wins     not accepted, unless a former member brings it, or its
//	                             sender proves its membership (lineage.go)
//	without a view here          the first one comes from a node that was asked for
//	                             admission, or from the leader that it named
//
// Why nothing is lost: a node becomes a voter only when every voter that stays holds a
// view with it (join.go). So a voter that stays has the leader or candidate of a later
// view in its own. A non-member with a newer view means that this node was removed, or
// never became a voter; then the members of its view hold the newer one, and answer with
// it.
//
// If none of them is left, no member can confirm the view. After Lease + RemoveAfter
// without a leader this node holds nothing that could be lost, and accepts the
// non-member's view: at worst its incarnation, which cannot act, ends.

// mayAccept reports whether msg counts when it comes from a node. If not, it answers or
// traces it.
func (l *lineage) mayAccept(from gossip.NodeID, msg Message) bool {
	if l.view == nil {
		return l.joining.joinerMayAccept(from, msg)
	}
	if l.view.Member(from) != nil {
		return true
	}
	switch m := msg.(type) {
	case *JoinRequest:
		return l.traceNonMember(m.Hops == 0, from)
	case *Encounter, *Confront, *Confronted:
		return true // from another cluster of the name: foreign.go, vouch.go
	case *LeaveRequest, *NeedView:
		return l.traceNonMember(l.gone[from], from)
	case *Contested:
		if s := &l.membership; s.accepts(l.self(), from, m) {
			l.conflict, s.asked = s.asked, lineageConflict{} // as a member's question
			return true
		}
	}
	v, epoch := shownView(msg)
	if v != nil {
		return l.acceptsView(from, v)
	}
	if p, is := msg.(*Ping); is {
		switch {
		case p.Cluster != l.view.Cluster:
			return true // onPing traces it
		case epoch < l.view.Epoch:
			return true // onPing answers with our view
		}
		l.askMembers(from)
		return false
	}
	return l.traceNonMember(false, from)
}

// shownView returns the view that a message was sent in, and the epoch of a ping.
func shownView(msg Message) (*SentView, gossip.Epoch) {
	switch m := msg.(type) {
	case *Decided:
		return m.View, 0
	case *Ping:
		return m.View, m.Epoch
	case *Accept:
		return m.Base, 0
	case *PreVote:
		return m.Base, 0
	case *Prepare:
		return m.Base, 0
	case *Contest:
		return m.View, 0
	case *Contested:
		return m.View, 0
	}
	return nil, 0
}

// acceptsView reports whether to accept a view sent by a non-member.
func (l *lineage) acceptsView(from gossip.NodeID, v *SentView) bool {
	switch compareViews(l.view, v.View) {
	case older, wins, otherCluster:
		return true // it is answered, or traced, and changes no state
	case newer:
		if l.follower.leaderlessForLong() {
			return true
		}
	case loses:
		if l.gone[from] || l.nodes[from] || l.follower.leaderlessForLong() {
			return true
		}
		l.requestProof(from, v)
	}
	l.askMembers(from)
	return false
}

// askMembers asks the members of our view for a newer one, at most once per Ping: a
// non-member has shown that there may be one.
func (l *lineage) askMembers(stranger gossip.NodeID) {
	if l.now.Before(l.nextConsult) {
		return
	}
	l.nextConsult = l.now.Add(l.cfg.Ping)
	l.traceEvent("view from a non-member", stranger, "the members are asked")
	for i := range min(len(l.view.Members), joinerAsks) {
		l.sendTo(l.view.Members[i].ID, &Decided{View: l.ref()})
	}
}

// traceNonMember traces a message that only members may send, and returns ok.
func (l *lineage) traceNonMember(ok bool, from gossip.NodeID) bool {
	if !ok && !l.gone[from] { // a former member may not have learned of its removal
		l.traceEvent("membership message from a non-member, ignored", from, "")
	}
	return ok
}

// lineageNodesMax bounds the nodes that members have shown in another lineage.
const lineageNodesMax = membersMax

// noteLineage records the members of another lineage that a member of ours has shown: they
// may then contest our view themselves, even if that member has ended.
func (l *lineage) noteLineage(by gossip.NodeID, v *SentView) {
	if l.view.Member(by) == nil && !l.gone[by] || v.Packed() {
		return
	}
	if l.nodes == nil || len(l.nodes)+len(v.Members) > lineageNodesMax {
		l.nodes = map[gossip.NodeID]bool{}
	}
	for i := range v.Members {
		l.nodes[v.Members[i].ID] = true
	}
}

// joinerMayAccept reports whether a message counts at a node without a view: it must come
// from a node that was asked for admission, or from a leader that such a node named.
func (e *joining) joinerMayAccept(from gossip.NodeID, msg Message) bool {
	if e.wasAsked(from) {
		return true
	}
	if v, _ := shownView(msg); v != nil { // a node without a view expects nothing else
		e.traceEvent("view from a node that was not asked", from, "")
	}
	return false
}
