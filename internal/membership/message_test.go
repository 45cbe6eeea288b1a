package membership

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/discovery"
)

func someMessages() []message {
	node := gossip.Node{ID: 7, Name: "a", Addr: "127.0.0.1:1", Roles: []string{"backend", "x"}, AppVersion: "1.2"}
	return []message{
		&contact{Ask: true, From: node, Points: []string{"127.0.0.1:1", "127.0.0.1:2"}},
		&contact{From: node, Cluster: 9, Epoch: gossip.FirstEpoch(3), Origin: 5, Live: true, Members: []gossip.Node{node, {ID: 8}}},
		bootstrapClaim{Round: 4}, claimVote{Round: 4, Granted: true}, claimVote{Round: 5, Why: "no"}, goodbye{}, echo{}, echoed{},
		sealed{Subject: 9}, &keyIDs{}, &keyIDs{Ask: true, IDs: []keyID{{1, 2}, {3, 4}}},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, m := range someMessages() {
		got, err := decodeMessage(appendMessage(nil, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%#v came back as %#v, %v", m, got, err)
		}
	}
}

func TestTruncatedMessagesAreRefused(t *testing.T) {
	for _, m := range someMessages() {
		frame := appendMessage(nil, m)
		for n := range len(frame) {
			if got, err := decodeMessage(frame[:n]); err == nil {
				t.Errorf("%d of %d bytes of %#v decode to %#v", n, len(frame), m, got)
			}
		}
		if _, err := decodeMessage(append(frame, 0)); err == nil {
			t.Errorf("trailing bytes behind %#v are taken", m)
		}
	}
}

func FuzzDecodeMessage(f *testing.F) {
	for _, m := range someMessages() {
		f.Add(appendMessage(nil, m))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := decodeMessage(frame)
		if err != nil {
			return
		}
		again := appendMessage(nil, m)
		m2, err := decodeMessage(again)
		if err != nil || !reflect.DeepEqual(m, m2) {
			t.Fatalf("%#v came back as %#v, %v", m, m2, err)
		}
	})
}

func FuzzReadMeta(f *testing.F) {
	f.Add(appendNode([]byte{discovery.MetaVersion}, &gossip.Node{ID: 7, Name: "a", Addr: "127.0.0.1:1"}))
	f.Fuzz(func(t *testing.T, meta []byte) {
		n, err := discovery.ReadMeta(meta, readNode)
		if err == nil && !bytes.Equal(appendNode([]byte{discovery.MetaVersion}, &n)[:1], meta[:1]) {
			t.Fatal("another version was taken")
		}
	})
}
