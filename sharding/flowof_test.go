package sharding

import (
	"testing"

	"github.com/peerage-go/peerage/gossip/transport"
)

// What a handoff relies on is one flow: requests to a shard, what is refused of them, the
// shard's markers and their answers.
func TestFramesOfAShardAreOneFlow(t *testing.T) {
	token := Token{Term: 3, Seq: 4}
	tell := append(appendRequest(nil, "cart", 7, "id", 0, nil), "payload"...)
	ask := appendRequest(nil, "cart", 7, "another", 9, &Sender{Type: "x", ID: "y"})
	flow := FlowOf(tell)
	if flow == 0 || flow&answersFlow != 0 {
		t.Errorf("flow %x of a tell", flow)
	}
	for name, frame := range map[string][]byte{
		"ask": ask, "refused tell": appendRefused(nil, token, tell), "refused ask": appendRefused(nil, token, ask),
		"marker": appendMarker(nil, frameMarker, "cart", 7, token), "its answer": appendMarker(nil, frameMarkerAck, "cart", 7, token),
	} {
		if got := FlowOf(frame); got != flow {
			t.Errorf("%s has flow %x, the shard's is %x", name, got, flow)
		}
	}
	others := map[transport.Flow]string{flow: "the shard"}
	for name, frame := range map[string][]byte{
		"another shard": appendRequest(nil, "cart", 8, "id", 0, nil), "another type": appendRequest(nil, "card", 7, "id", 0, nil),
		"an answer": appendReply(nil, "c", 9, 0), "another answer": appendReply(nil, "c", 10, 0),
	} {
		got := FlowOf(frame)
		if before, taken := others[got]; taken || got == 0 {
			t.Errorf("%s has flow %x, as %s", name, got, before)
		}
		others[got] = name
	}
	for name, frame := range map[string][]byte{
		"a farewell": appendMarker(nil, frameMarker, "", 0, token), "hello": {byte(frameHello)}, "nothing": nil,
		"a refusal of a refusal": appendRefused(nil, token, appendRefused(nil, token, tell)), "half a tell": tell[:numberAt],
	} {
		if got := FlowOf(frame); got != 0 {
			t.Errorf("%s has flow %x", name, got)
		}
	}
}
