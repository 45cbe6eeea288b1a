package frames

import (
	"bytes"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/headers"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/sharding/strategy"
	"pgregory.net/rapid"
)

func TestRequestsSurviveTheTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shard := strategy.ShardID(rapid.Uint32().Draw(t, "shard"))
		typ := rapid.StringN(1, -1, NameBytesMax).Draw(t, "type")
		id := rapid.StringN(1, -1, IDBytesMax).Draw(t, "id")
		call := rapid.Uint64().Draw(t, "call")
		token := protocol.Token{Term: 7, Seq: rapid.Uint64().Draw(t, "seq")}
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		var from *activation.Sender
		if rapid.Bool().Draw(t, "from an entity") {
			from = &activation.Sender{Type: "t", ID: rapid.StringN(1, -1, 300).Draw(t, "sender")}
		}
		frame := append(AppendRequest(nil, typ, shard, id, call, from), payload...)
		Stamp(frame, token, 99)
		if call != 0 {
			StampLeft(frame, time.Minute)
		}
		q, err := ParseRequest(frame)
		if err != nil {
			t.Fatal(err)
		}
		if q.Shard != shard || string(q.Type) != typ || string(q.ID) != id || q.Call != call || q.Token != token ||
			q.Number != 99 || !bytes.Equal(q.Payload, payload) || call != 0 && q.Left != time.Minute {
			t.Fatalf("%+v came back", q)
		}
		if from != nil && string(q.FromID) != from.ID || from == nil && q.FromType != nil {
			t.Fatalf("sender %q/%q came back", q.FromType, q.FromID)
		}
		begun, err := ParseRequest(AppendStart(nil, typ, shard, id, call, from))
		if err != nil || !begun.Start || q.Start || len(begun.Payload) != 0 || !bytes.Equal(begun.FromID, q.FromID) {
			t.Fatalf("start: %+v, %v", begun, err)
		}
		refused, inner, q2, err := ParseRefused(AppendRefused(nil, token, frame))
		if err != nil || refused != token || !bytes.Equal(inner, frame) || q2.Number != 99 {
			t.Fatalf("refused: %v %+v %v", refused, q2, err)
		}
	})
}

// TestHeadersOfRequestsSurviveTheTrip checks requests with and without a sender, a chain, a call
// and a stamp, and that those without headers have no byte more.
func TestHeadersOfRequestsSurviveTheTrip(t *testing.T) {
	h, err := headers.List("").With(map[string]string{"tenant": "7", "traceparent": "00-01-02-01"})
	if err != nil {
		t.Fatal(err)
	}
	from, chain := &activation.Sender{Type: "t", ID: "i"}, activation.ParseChain(make([]byte, 16))
	for name, frame := range map[string]func(headers.List) []byte{
		"tell":     func(h headers.List) []byte { return AppendAsk(nil, "typ", 3, "id", 0, nil, nil, h, 0) },
		"ask":      func(h headers.List) []byte { return AppendAsk(nil, "typ", 3, "id", 9, from, nil, h, 0) },
		"chain":    func(h headers.List) []byte { return AppendAsk(nil, "typ", 3, "id", 9, from, chain, h, 0) },
		"start":    func(h headers.List) []byte { return AppendAsk(nil, "typ", 3, "id", 9, nil, nil, h, FlagStart) },
		"reliable": func(h headers.List) []byte { return AppendReliable(nil, "typ", 3, "id", from, h) },
	} {
		q, err := ParseRequest(append(frame(h), "payload"...))
		if err != nil || string(q.Headers) != string(h) || string(q.Payload) != "payload" {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
		if more := len(frame(h)) - len(frame("")); more != 1+len(h) {
			t.Errorf("%s: headers of %d bytes cost %d", name, len(h), more)
		}
		if q, err := ParseRequest(append(frame(""), "payload"...)); err != nil || q.Headers != nil || string(q.Payload) != "payload" {
			t.Errorf("%s without headers: %+v, %v", name, q, err)
		}
	}
	for name, h := range map[string]headers.List{"no header": "", "half a header": "\x01a", "no order": "\x01b\x00\x01a\x00", "no key": "\x00\x01v"} {
		frame := wire.AppendString(appendFlagged(nil, "typ", 3, "id", 9, nil, flagHeaders), string(h))
		if _, err := ParseRequest(frame); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	huge := wire.AppendUvarint(appendFlagged(nil, "typ", 3, "id", 9, nil, flagHeaders), 1<<40)
	if _, err := ParseRequest(huge); err == nil {
		t.Error("headers of a terabyte are accepted")
	}
}

func TestRepliesAndMarkersSurviveTheTrip(t *testing.T) {
	r, err := ParseReply(append(AppendReply(nil, "typ", 1<<40, CodeHandler), "text"...))
	if err != nil || r.Call != 1<<40 || string(r.Type) != "typ" || r.Code != CodeHandler || string(r.Payload) != "text" {
		t.Errorf("%+v, %v", r, err)
	}
	typ, call, err := ParseCancel(AppendCancel(nil, "typ", 1<<40))
	if err != nil || string(typ) != "typ" || call != 1<<40 {
		t.Errorf("%q, %d, %v", typ, call, err)
	}
	order := AppendDismiss(nil, "typ", 5, protocol.Token{Term: 3, Seq: 4}, "id")
	d, err := ParseStopped(order)
	if err != nil || KindOf(order) != KindDismiss || d.Shard != 5 || d.Token != (protocol.Token{Term: 3, Seq: 4}) || string(d.Type) != "typ" || string(d.ID) != "id" {
		t.Errorf("%+v, %v", d, err)
	}
	if of := FlowOf(AppendRequest(nil, "typ", 5, "id", 0, nil)); FlowOf(order) != of {
		t.Errorf("an order has flow %x, requests to its shard have %x", FlowOf(order), of)
	}
	m, err := ParseMarker(AppendMarker(nil, KindMarker, "typ", 5, protocol.Token{Term: 3, Seq: 4}))
	if err != nil || m.Shard != 5 || m.Token != (protocol.Token{Term: 3, Seq: 4}) || string(m.Type) != "typ" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestFramesOfFlowControlSurviveTheTrip(t *testing.T) {
	sent := []Grant{{3, protocol.Token{Term: 1, Seq: 2}, flow.Grant{Limit: 4, LimitBytes: 5, Asked: 6}}, {6, protocol.Token{Term: 7, Seq: 8}, flow.Grant{Limit: 9, LimitBytes: 10}}}
	frame := AppendGrantHead(nil, "typ")
	for i := range sent {
		frame = AppendGrant(frame, &sent[i])
	}
	typ, grants, err := ParseGrants(frame)
	if err != nil || string(typ) != "typ" || len(grants) != len(sent)*GrantBytes {
		t.Fatalf("%q, %d bytes, %v", typ, len(grants), err)
	}
	for i := range sent {
		if got := ReadGrant(grants[i*GrantBytes:]); got != sent[i] {
			t.Errorf("%+v came back for %+v", got, sent[i])
		}
	}
	report := flow.Report{Sent: 1, SentBytes: 2, Limit: 3, LimitBytes: 4, Asked: 5}
	blocked := AppendBlocked(nil, "typ", 5, protocol.Token{Term: 6, Seq: 7}, report)
	m, got, err := ParseReport(blocked)
	if err != nil || got != report || m.Shard != 5 || m.Token != (protocol.Token{Term: 6, Seq: 7}) || string(m.Type) != "typ" {
		t.Errorf("%+v, %+v, %v", m, got, err)
	}
	for n := range frame {
		if _, rest, err := ParseGrants(frame[:n]); err == nil && len(rest) != 0 && len(rest) != GrantBytes {
			t.Errorf("a grant of %d bytes was read", n)
		}
	}
	for n := range blocked {
		if _, _, err := ParseReport(blocked[:n]); err == nil {
			t.Errorf("a report of %d bytes was read", n)
		}
	}
	m, got, err = ParseReport(AppendShrunk(nil, "typ", 5, protocol.Token{Term: 6, Seq: 7}, report))
	if err != nil || got != report || m.Shard != 5 || m.Token != (protocol.Token{Term: 6, Seq: 7}) || string(m.Type) != "typ" {
		t.Errorf("%+v, %+v, %v", m, got, err)
	}
	shrink := AppendShrink(nil, "typ", 5, protocol.Token{Term: 6, Seq: 7}, 8)
	m, asked, err := ParseShrink(shrink)
	if err != nil || asked != 8 || m.Shard != 5 || m.Token != (protocol.Token{Term: 6, Seq: 7}) || string(m.Type) != "typ" {
		t.Errorf("%+v, %d, %v", m, asked, err)
	}
	for n := range shrink {
		if _, _, err := ParseShrink(shrink[:n]); err == nil {
			t.Errorf("a question of %d bytes was read", n)
		}
	}
}

// TestReliableFramesSurviveTheTrip checks the two frames of reliable delivery.
func TestReliableFramesSurviveTheTrip(t *testing.T) {
	from := &activation.Sender{Type: "t", ID: "i"}
	q, err := ParseRequest(append(AppendReliable(nil, "typ", 3, "id", from, ""), "payload"...))
	if err != nil || q.Reliable == nil || string(q.Payload) != "payload" || string(q.FromID) != "i" || q.Shard != 3 {
		t.Errorf("%+v, %v", q, err)
	}
	for _, cut := range [][]byte{
		AppendReliable(nil, "typ", 3, "id", nil, "")[:40],
		appendFlagged(nil, "typ", 3, "id", 9, nil, flagReliable),
	} {
		if _, err := ParseRequest(cut); err == nil {
			t.Errorf("%x is taken", cut)
		}
	}
	want := Confirmation{Shard: 5, Producer: 1 << 60, Seq: 9, Try: 2, Outcome: 1, All: true, Code: CodeHandler, Text: "no"}
	typ, c, err := ParseConfirm(AppendConfirm(nil, "typ", &want))
	if err != nil || string(typ) != "typ" || c != want {
		t.Errorf("%+v, %v", c, err)
	}
}
