package frames

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"testing"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/transport"
)

// A handoff relies on one flow: requests to a shard, what is refused of them, the
// shard's markers and their answers.
func TestFramesOfAShardAreOneFlow(t *testing.T) {
	token := protocol.Token{Term: 3, Seq: 4}
	tell := append(AppendRequest(nil, "cart", 7, "id", 0, nil), "payload"...)
	ask := AppendRequest(nil, "cart", 7, "another", 9, &activation.Sender{Type: "x", ID: "y"})
	shard := FlowOf(tell)
	if shard == 0 || shard&answersFlow != 0 {
		t.Errorf("flow %x of a tell", shard)
	}
	for name, frame := range map[string][]byte{
		"ask": ask, "refused tell": AppendRefused(nil, token, tell), "refused ask": AppendRefused(nil, token, ask),
		"report": AppendBlocked(nil, "cart", 7, token, flow.Report{Sent: 3}), "answer": AppendShrunk(nil, "cart", 7, token, flow.Report{Sent: 3}), "question": AppendStopped(nil, "cart", 7, token, "id"),
		"marker": AppendMarker(nil, KindMarker, "cart", 7, token), "its answer": AppendMarker(nil, KindMarkerAck, "cart", 7, token),
	} {
		if got := FlowOf(frame); got != shard {
			t.Errorf("%s has flow %x, the shard's is %x", name, got, shard)
		}
	}
	others := map[transport.Flow]string{shard: "the shard"}
	for name, frame := range map[string][]byte{
		"another shard": AppendRequest(nil, "cart", 8, "id", 0, nil), "another type": AppendRequest(nil, "card", 7, "id", 0, nil),
		"a grant": AppendGrant(AppendGrantHead(nil, "cart"), &Grant{Shard: 7}), "an answer": AppendReply(nil, "c", 9, 0), "another answer": AppendReply(nil, "c", 10, 0),
	} {
		got := FlowOf(frame)
		if before, taken := others[got]; taken || got == 0 {
			t.Errorf("%s has flow %x, as %s", name, got, before)
		}
		others[got] = name
	}
	grant, stop := FlowOf(AppendGrantHead(nil, "cart")), FlowOf(AppendStop(nil, "card", 9, token, "id", flow.Control))
	if shrink := FlowOf(AppendShrink(nil, "card", 9, token, 1)); shrink != grant {
		t.Errorf("grants have flow %x, questions whether a window shrinks %x", grant, shrink)
	}
	if grant != stop {
		t.Errorf("grants have flow %x, stops %x: the stop must leave first", grant, stop)
	}
	for name, frame := range map[string][]byte{
		"a farewell": AppendMarker(nil, KindMarker, "", 0, token), "hello": {byte(KindHello)}, "nothing": nil,
		"a refusal of a refusal": AppendRefused(nil, token, AppendRefused(nil, token, tell)), "half a tell": tell[:numberAt],
	} {
		if got := FlowOf(frame); got != 0 {
			t.Errorf("%s has flow %x", name, got)
		}
	}
}

// Only tells may wait behind a long queue.
func TestAllFramesButTellsAreUrgent(t *testing.T) {
	tell, ask := AppendRequest(nil, "cart", 7, "id", 0, nil), AppendRequest(nil, "cart", 7, "id", 9, nil)
	for name, c := range map[string]struct {
		frame  []byte
		urgent bool
	}{
		"tell": {tell, false}, "nothing": {nil, false}, "ask": {ask, true}, "reply": {AppendReply(nil, "cart", 9, 0), true},
		"grant": {AppendGrantHead(nil, "cart"), true}, "refused tell": {AppendRefused(nil, protocol.Token{}, tell), true},
	} {
		if f, urgent := ClassifyFrame(c.frame); urgent != c.urgent || f != FlowOf(c.frame) {
			t.Errorf("%s: urgent is %v, want %v; flow %x", name, urgent, c.urgent, f)
		}
	}
}
