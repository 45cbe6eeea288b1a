package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/internal/wire/wiretest"
)

// TestTheWireIsAsItWas: nodes read the frames of all wire versions that they speak, and those of
// any two read a refusal.
func TestTheWireIsAsItWas(t *testing.T) {
	id := identity{Peer: Peer{ID: 7, Name: "a", Addr: "10.0.0.1:7101", Versions: wire.Versions{Oldest: 3, Newest: 9}}, cluster: "c", settings: map[string]string{"Ping": "1s"}}
	refused := appendAnswer(nil, &answer{verdict: verdictRefused, identity: identity{Peer: Peer{Versions: id.Versions}}, refusal: refusal{code: FailVersion, reason: "no"}})
	frames := [][]byte{
		appendHello(nil, &hello{identity: id, purpose: purposeProbe, number: 3, want: 9, process: 5, incarnation: 2}),
		appendAnswer(nil, &answer{verdict: verdictWelcome, identity: id}),
		refused,
	}
	wiretest.Frozen(t, frames, func(_ uint16, frame []byte) ([]byte, error) {
		v, _, err := decodePrelude(frame[:preludeBytes])
		if err != nil {
			return nil, err
		}
		if bytes.Equal(frame, frames[0]) {
			h, err := decodeHello(v, frame[preludeBytes:])
			return appendHello(nil, h), err
		}
		a, err := decodeAnswer(v, frame[preludeBytes:])
		return appendAnswer(nil, a), err
	})
	const refusal = "50454552" + "0003" + "0009" + "00000005" + "03" + "08" + "02" + "6e6f" // magic, versions, length, verdict, code, reason
	if is := fmt.Sprintf("%x", refused); is != refusal {
		t.Errorf("a refusal is %s, not %s: its form never changes", is, refusal)
	}
}
