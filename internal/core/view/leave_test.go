package view

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

func departureOf(self gossip.NodeID, word string) *departure {
	e := evidenceOf(self, word)
	return &departure{history: e.history, evidence: e, leavers: map[gossip.NodeID]bool{}}
}

// sentTo lists the receivers of the messages since the last call.
func (e *env) sentTo() (out []gossip.NodeID) {
	for _, s := range e.out.Send {
		out = append(out, s.To)
	}
	e.out.Send = nil
	return out
}

func TestDepartureAsksTheLeaderOncePerPing(t *testing.T) {
	d := departureOf(1, "uuu")
	d.leaving = true
	d.evidence.onProof(ProvenDead{Subject: 2, Certain: true})
	d.requestLeave(0)
	if got := d.sentTo(); len(got) != 1 || got[0] != 3 {
		t.Errorf("without a leader, asks %v", got)
	}
	d.requestLeave(3)
	if got := d.sentTo(); got != nil {
		t.Errorf("asks %v again within a ping", got)
	}
	d.repeatLeave()
	d.requestLeave(3)
	if got := d.sentTo(); len(got) != 1 || got[0] != 3 {
		t.Errorf("asks %v, want the new leader", got)
	}
}

func TestDepartureSendsNoticeUntilAViewShowsIt(t *testing.T) {
	d := departureOf(1, "uuu")
	if d.sendNotice(2) {
		t.Error("sends a notice before it was announced")
	}
	d.announced = true
	if !d.sendNotice(2) || d.sendNotice(2) || len(d.sentTo()) != 1 {
		t.Error("does not send one notice per ping")
	}
	d.now = d.nextAnnounce
	d.status = gossip.Leaving
	if d.sendNotice(2) {
		t.Error("sends a notice although the view shows it as leaving")
	}
}

func TestDepartureCountsThoseThatStay(t *testing.T) {
	d := departureOf(1, "uuuj")
	d.leavers[2] = true
	if d.allLeave() {
		t.Error("3 stays, and yet all leave")
	}
	d.evidence.onProof(ProvenDead{Subject: 3})
	if !d.allLeave() || d.allOthersDead() {
		t.Errorf("3 is dead: all leave %v, all others dead %v", d.allLeave(), d.allOthersDead())
	}
	d.evidence.onProof(ProvenDead{Subject: 2})
	d.evidence.onProof(ProvenDead{Subject: 4})
	if !d.allOthersDead() {
		t.Error("all others are proven dead")
	}
}

// TestFarewellEndsOnceAQuorumHoldsTheView: the leader that has left sends its last view to
// the members that have not acknowledged it, until a quorum has.
func TestFarewellEndsOnceAQuorumHoldsTheView(t *testing.T) {
	e := evidenceOf(1, "uuuu")
	last := e.after(1)
	f := &farewell{
		history: e.history, evidence: e, quorums: &quorums{history: e.history, evidence: e},
		last: last, packed: Whole(last), knows: map[gossip.NodeID]bool{}, until: e.now.Add(2 * testRemove),
	}
	if f.distributeView() || len(f.sentTo()) != 3 {
		t.Error("does not send the view to the three that stay")
	}
	f.countAnswer(2, &Decided{View: Whole(last)})
	f.countAnswer(3, &Decided{View: Whole(e.view)})
	f.now = f.next
	if f.distributeView() || len(f.sentTo()) != 2 {
		t.Error("one of three holds the view: it is sent to the other two again")
	}
	f.countAnswer(4, &LeaveRequest{})
	if got := f.sentTo(); len(got) != 1 || got[0] != 4 {
		t.Errorf("answers %v, want 4, which still has an older view", got)
	}
	f.countAnswer(4, &Decided{View: Whole(last)})
	if !f.distributeView() {
		t.Error("two of three hold the view, and it goes on")
	}
	f.knows = map[gossip.NodeID]bool{}
	f.now = f.until
	if !f.distributeView() {
		t.Error("goes on after its time")
	}
}

// TestAFarewellCountsHolders: of its view or a later one of the cluster. It answers those that
// stay and ask, and repeats the view twice per ping to those that live.
func TestAFarewellCountsHolders(t *testing.T) {
	e := evidenceOf(1, "uuuu")
	last := e.after(1)
	f := &farewell{
		history: e.history, evidence: e, quorums: &quorums{history: e.history, evidence: e},
		last: last, packed: Whole(last), knows: map[gossip.NodeID]bool{}, until: e.now.Add(2 * testRemove),
	}
	for name, v := range map[string]*SentView{
		"no view":         nil,
		"another cluster": Whole(&gossip.View{Cluster: 9, Epoch: last.Epoch}),
		"the view before": Whole(&gossip.View{Cluster: 1, Epoch: last.Epoch - 1}),
	} {
		if f.countAnswer(2, &Decided{View: v}); f.knows[2] {
			t.Errorf("%s counts", name)
		}
	}
	if f.countAnswer(2, &Decided{View: Whole(&gossip.View{Cluster: 1, Epoch: last.Epoch + 1})}); !f.knows[2] {
		t.Error("a later view does not count")
	}
	for _, m := range []Message{&PreVote{}, &Prepare{}, &LeaveRequest{}, &JoinRequest{}, &NeedView{}} {
		f.countAnswer(3, m)
		f.countAnswer(9, m)
		if got := f.sentTo(); !slices.Equal(got, []gossip.NodeID{3}) {
			t.Errorf("answers %T with the view to %v", m, got)
		}
	}
	if f.countAnswer(3, &Pong{}); f.sentTo() != nil {
		t.Error("answers a pong")
	}
	e.onProof(ProvenDead{Subject: 3, Certain: true})
	if f.distributeView() || !slices.Equal(f.sentTo(), []gossip.NodeID{4}) || f.next != f.now.Add(testPing/2) {
		t.Errorf("sends the view to others than 4, and again at %v", f.next)
	}
	f.now = f.next - 1
	if f.distributeView() || f.sentTo() != nil {
		t.Error("repeats the view too soon")
	}
}

// TestAllLeave: members that are dead, are joining or leave do not stay.
func TestAllLeave(t *testing.T) {
	d := departureOf(1, "uuuj")
	d.leavers[2], d.leavers[3] = true, true
	if !d.allLeave() {
		t.Error("a joiner stays")
	}
	if d = departureOf(1, "ujl"); d.allLeave() {
		t.Error("a member that is shown as leaving votes until it leaves")
	}
	d.leavers[3] = true
	if !d.allLeave() || d.allOthersDead() {
		t.Error("all leave, and none is dead")
	}
}

// TestRepeatsFollowTheirIntent: a new leader is sent the request or the notice, whichever this
// node has made.
func TestRepeatsFollowTheirIntent(t *testing.T) {
	d := departureOf(1, "uuu")
	d.nextLeave, d.nextAnnounce = d.now+5, d.now+5
	if d.repeatLeave(); d.nextLeave != d.now+5 || d.nextAnnounce != d.now+5 {
		t.Error("repeats without a request")
	}
	d.announced = true
	if d.repeatLeave(); d.nextLeave != d.now+5 || d.nextAnnounce != d.now {
		t.Error("must repeat the notice alone")
	}
	d.leaving = true
	if d.repeatLeave(); d.nextLeave != d.now {
		t.Error("must repeat the request")
	}
	if d.announces() {
		t.Error("announces a leave that it has requested")
	}
	d.leaving, d.view = false, nil
	if d.announces() {
		t.Error("announces a leave without a view")
	}
}
