package sharding

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"testing"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/headers"
)

// FuzzHandleEntity gives a node frames of any bytes: it must not panic.
func FuzzHandleEntity(f *testing.F) {
	f.Add(append(frames.AppendReliable(nil, "nothing", 0, "a", nil, ""), "x"...))
	f.Add(frames.AppendConfirm(nil, "nothing", &frames.Confirmation{Producer: 1, Seq: 1, Try: 1}))
	f.Add([]byte{byte(frames.KindHello)})
	f.Add(append(frames.AppendRequest(nil, "ear", 3, "e", 0, nil), 1, 2, 3))
	f.Add(frames.AppendAsk(nil, "ear", 3, "e", 7, &activation.Sender{Type: "t", ID: "i"}, activation.ParseChain(make([]byte, 16)), "", 0))
	h, err := headers.List("").With(map[string]string{"tenant": "7", "traceparent": "00-01-02-01"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(frames.AppendAsk(nil, "ear", 3, "e", 7, nil, nil, h, 0), 1, 2, 3))
	f.Add(append(frames.AppendReliable(nil, "ear", 3, "e", &activation.Sender{Type: "t", ID: "i"}, h), 1, 2, 3))
	f.Add(append(frames.AppendRequest(nil, "ear", 3, "e", 7, &activation.Sender{Type: "t", ID: "i"}), 1, 2, 3))
	f.Add(frames.AppendReply(nil, "ear", 1<<32, frames.CodeOK))
	f.Add(frames.AppendCancel(nil, "ear", 1<<32))
	f.Add(frames.AppendMarker(nil, frames.KindMarker, "ear", 3, protocol.Token{}))
	f.Add(frames.AppendMarker(nil, frames.KindMarkerAck, "ear", 3, protocol.Token{}))
	f.Add(frames.AppendGrant(frames.AppendGrantHead(nil, "ear"), &frames.Grant{Shard: 3}))
	f.Add(frames.AppendBlocked(nil, "ear", 3, protocol.Token{}, flow.Report{Sent: 1}))
	f.Add(frames.AppendShrink(nil, "ear", 3, protocol.Token{}, 1))
	f.Add(frames.AppendShrunk(nil, "ear", 3, protocol.Token{}, flow.Report{Sent: 1, Asked: 1}))
	f.Add(frames.AppendRefused(nil, protocol.Token{}, frames.AppendRequest(nil, "ear", 3, "e", 0, nil)))
	c := newCluster(f)
	n := c.add("n")
	n.register(newJournal(), nil)
	n.start()
	c.install(n)
	f.Fuzz(func(t *testing.T, frame []byte) {
		n.s.HandleEntity(9, frame)
		n.s.HandleCoordinator(9, frame)
	})
}
