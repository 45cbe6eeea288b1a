package membership

import (
	"bytes"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/discovery"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/internal/wire/wiretest"
)

func someMessages() []message {
	node := gossip.Node{ID: 7, Name: "a", Addr: "127.0.0.1:1", Roles: []string{"backend", "x"}, Zone: "eu-1a", AppVersion: "1.2", WireOldest: 3, WireNewest: 200}
	return []message{
		&contact{Ask: true, From: node, Points: []string{"127.0.0.1:1", "127.0.0.1:2"}},
		&contact{From: node, Cluster: 9, Epoch: gossip.FirstEpoch(3), Origin: 5, Live: true, Members: []gossip.Node{node, {ID: 8}}},
		&bootstrapClaim{Round: 4}, &claimVote{Round: 4, Granted: true}, &claimVote{Round: 5, Why: "no"}, &goodbye{}, &echo{}, &echoed{},
		&sealed{Subject: 9}, &keyIDs{}, &keyIDs{Ask: true, IDs: []keyID{{1, 2}, {3, 4}}},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) { wiretest.Check(t, &messages, someMessages()) }

func TestTheWireIsAsItWas(t *testing.T) {
	wiretest.Golden(t, &messages, someMessages())
}

func FuzzDecodeMessage(f *testing.F) { wiretest.Fuzz(f, &messages, someMessages(), nil) }

func metadata(n *gossip.Node) []byte {
	c := wire.NewEncoder([]byte{discovery.MetaVersion})
	codeNode(n, c)
	return c.Encoded()
}

func FuzzReadMeta(f *testing.F) {
	f.Add(metadata(&gossip.Node{ID: 7, Name: "a", Addr: "127.0.0.1:1"}))
	f.Fuzz(func(t *testing.T, meta []byte) {
		n, err := discovery.ReadMeta(meta, codeNode)
		if err == nil && !bytes.Equal(metadata(&n)[:1], meta[:1]) {
			t.Fatal("another version was taken")
		}
	})
}
