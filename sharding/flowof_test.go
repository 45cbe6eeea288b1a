package sharding

import (
	"testing"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/transport"
)

// What a handoff relies on is one flow: requests to a shard, what is refused of them, the
// shard's markers and their answers.
func TestFramesOfAShardAreOneFlow(t *testing.T) {
	token := Token{Term: 3, Seq: 4}
	tell := append(appendRequest(nil, "cart", 7, "id", 0, nil), "payload"...)
	ask := appendRequest(nil, "cart", 7, "another", 9, &activation.Sender{Type: "x", ID: "y"})
	shard := flowOf(tell)
	if shard == 0 || shard&answersFlow != 0 {
		t.Errorf("flow %x of a tell", shard)
	}
	for name, frame := range map[string][]byte{
		"ask": ask, "refused tell": appendRefused(nil, token, tell), "refused ask": appendRefused(nil, token, ask),
		"report": appendBlocked(nil, "cart", 7, token, flow.Report{Sent: 3}), "answer": appendShrunk(nil, "cart", 7, token, flow.Report{Sent: 3}), "question": appendStopped(nil, "cart", 7, token, "id"),
		"marker": appendMarker(nil, frameMarker, "cart", 7, token), "its answer": appendMarker(nil, frameMarkerAck, "cart", 7, token),
	} {
		if got := flowOf(frame); got != shard {
			t.Errorf("%s has flow %x, the shard's is %x", name, got, shard)
		}
	}
	others := map[transport.Flow]string{shard: "the shard"}
	for name, frame := range map[string][]byte{
		"another shard": appendRequest(nil, "cart", 8, "id", 0, nil), "another type": appendRequest(nil, "card", 7, "id", 0, nil),
		"a grant": appendGrant(appendGrantHead(nil, "cart"), &granted{shard: 7}), "an answer": appendReply(nil, "c", 9, 0), "another answer": appendReply(nil, "c", 10, 0),
	} {
		got := flowOf(frame)
		if before, taken := others[got]; taken || got == 0 {
			t.Errorf("%s has flow %x, as %s", name, got, before)
		}
		others[got] = name
	}
	grant, stop := flowOf(appendGrantHead(nil, "cart")), flowOf(appendStop(nil, "card", 9, token, "id", flow.Control))
	if shrink := flowOf(appendShrink(nil, "card", 9, token, 1)); shrink != grant {
		t.Errorf("grants have flow %x, questions whether a window shrinks %x", grant, shrink)
	}
	if grant != stop {
		t.Errorf("grants have flow %x, stops %x: the stop must leave first", grant, stop)
	}
	for name, frame := range map[string][]byte{
		"a farewell": appendMarker(nil, frameMarker, "", 0, token), "hello": {byte(frameHello)}, "nothing": nil,
		"a refusal of a refusal": appendRefused(nil, token, appendRefused(nil, token, tell)), "half a tell": tell[:numberAt],
	} {
		if got := flowOf(frame); got != 0 {
			t.Errorf("%s has flow %x", name, got)
		}
	}
}
