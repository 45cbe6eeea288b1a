package transport

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

// TestTheWireIsAsItWas: nodes of one wire version understand each other, and those of
// any two understand a refusal.
func TestTheWireIsAsItWas(t *testing.T) {
	id := identity{Peer: Peer{ID: 7, Name: "a", Addr: "10.0.0.1:7101"}, cluster: "c", settings: map[string]string{"Ping": "1s"}}
	refused := appendAnswer(nil, &answer{verdict: verdictRefused, refusal: refusal{code: FailVersion, reason: "no"}})
	frames := [][]byte{
		appendHello(nil, &hello{identity: id, purpose: purposeProbe, number: 3, want: 9, process: 5, incarnation: 2}),
		appendAnswer(nil, &answer{verdict: verdictWelcome, identity: id}),
		refused,
	}
	h := sha256.New()
	for _, f := range frames {
		h.Write(f)
	}
	const was = "36bfb064a0c048f8"
	if is := fmt.Sprintf("%x", h.Sum(nil)[:8]); is != was {
		t.Errorf("the samples have digest %s, not %s: if a format has changed, see docs/HACKING.md", is, was)
	}
	const refusal = "50454552" + "%04x" + "00000005" + "03" + "08" + "02" + "6e6f" // magic, version, length, verdict, code, reason
	if is, want := fmt.Sprintf("%x", refused), fmt.Sprintf(refusal, wireVersion); is != want {
		t.Errorf("a refusal is %s, not %s: its form never changes", is, want)
	}
}
