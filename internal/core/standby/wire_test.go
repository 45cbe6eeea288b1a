package standby

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func samples() []Message {
	token := protocol.Token{Term: gossip.FirstEpoch(2), Seq: 9}
	layout := Layout{Token: token, Seq: 3, Members: []gossip.NodeID{1, 5}, Before: [][]gossip.NodeID{{1, 2}, {7}}}
	copies := []Copy{{ID: "a", Tag: Tag{token, 4}, State: []byte("state")}, {ID: "gone", Tag: Tag{token, 1}}, {ID: "empty", Tag: Tag{token, 1}, State: []byte{}}}
	return []Message{
		Collect{Shard: 7, Token: token, After: "x"},
		Held{Shard: 7, Token: token, After: "x", More: true, Layout: layout, Copies: copies},
		Held{Shard: 7, Token: token},
		Write{Shard: 7, Token: token, Stream: 2, Seq: 12, For: 3, Copies: copies},
		Ack{Shard: 7, Token: token, Stream: 2, Next: 12, Full: true},
		Announce{Shard: 7, Token: token, Layout: Layout{Token: token, Seq: 1, Active: true, Members: []gossip.NodeID{3}}},
		Announced{Shard: 7, Token: token, Seq: 3, Active: true},
		Refused{Shard: 7, Token: token, Fence: protocol.Token{Term: 8, Seq: 1}},
	}
}

func TestMessagesSurviveTheTrip(t *testing.T) {
	for _, m := range samples() {
		frame := Append(nil, m)
		got, err := Decode(frame)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: got %+v, %v; want %+v", m, got, err, m)
		}
		for n := range frame {
			if _, err := Decode(frame[:n]); err == nil {
				t.Errorf("%T cut to %d bytes decodes", m, n)
			}
		}
		later := append(frame[:len(frame):len(frame)], "fields of a later version"...)
		if got, err := Decode(later); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T of a later version decodes to %+v, %v", m, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := Decode(frame)
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, m))
		if err != nil || !reflect.DeepEqual(again, m) && !bytes.Equal(Append(nil, again), Append(nil, m)) {
			t.Fatalf("%+v comes back as %+v, %v", m, again, err)
		}
	})
}
