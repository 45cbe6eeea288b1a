package sharding

import (
	"bytes"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/core/flow"
	"pgregory.net/rapid"

	"github.com/peerage-go/peerage/internal/activation"
)

func TestRequestsSurviveTheTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shard := ShardID(rapid.Uint32().Draw(t, "shard"))
		typ := rapid.StringN(1, -1, nameBytesMax).Draw(t, "type")
		id := rapid.StringN(1, -1, idBytesMax).Draw(t, "id")
		call := rapid.Uint64().Draw(t, "call")
		token := Token{Term: 7, Seq: rapid.Uint64().Draw(t, "seq")}
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		var from *activation.Sender
		if rapid.Bool().Draw(t, "from an entity") {
			from = &activation.Sender{Type: "t", ID: rapid.StringN(1, -1, 300).Draw(t, "sender")}
		}
		frame := append(appendRequest(nil, typ, shard, id, call, from), payload...)
		stamp(frame, token, 99)
		if call != 0 {
			stampLeft(frame, time.Minute)
		}
		q, err := parseRequest(frame)
		if err != nil {
			t.Fatal(err)
		}
		if q.shard != shard || string(q.typ) != typ || string(q.id) != id || q.call != call || q.token != token ||
			q.number != 99 || !bytes.Equal(q.payload, payload) || call != 0 && q.left != time.Minute {
			t.Fatalf("%+v came back", q)
		}
		if from != nil && string(q.fromID) != from.ID || from == nil && q.fromTyp != nil {
			t.Fatalf("sender %q/%q came back", q.fromTyp, q.fromID)
		}
		begun, err := parseRequest(appendStart(nil, typ, shard, id, call, from))
		if err != nil || !begun.start || q.start || len(begun.payload) != 0 || !bytes.Equal(begun.fromID, q.fromID) {
			t.Fatalf("start: %+v, %v", begun, err)
		}
		known, inner, q2, err := parseRefused(appendRefused(nil, token, frame))
		if err != nil || known != token || !bytes.Equal(inner, frame) || q2.number != 99 {
			t.Fatalf("refused: %v %+v %v", known, q2, err)
		}
	})
}

func TestRepliesAndMarkersSurviveTheTrip(t *testing.T) {
	r, err := parseReply(append(appendReply(nil, "typ", 1<<40, codeHandler), "text"...))
	if err != nil || r.call != 1<<40 || string(r.typ) != "typ" || r.code != codeHandler || string(r.payload) != "text" {
		t.Errorf("%+v, %v", r, err)
	}
	typ, call, err := parseCancel(appendCancel(nil, "typ", 1<<40))
	if err != nil || string(typ) != "typ" || call != 1<<40 {
		t.Errorf("%q, %d, %v", typ, call, err)
	}
	m, err := parseMarker(appendMarker(nil, frameMarker, "typ", 5, Token{Term: 3, Seq: 4}))
	if err != nil || m.shard != 5 || m.token != (Token{Term: 3, Seq: 4}) || string(m.typ) != "typ" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestFramesOfFlowControlSurviveTheTrip(t *testing.T) {
	sent := []granted{{3, Token{Term: 1, Seq: 2}, flow.Grant{Limit: 4, LimitBytes: 5, Asked: 6}}, {6, Token{Term: 7, Seq: 8}, flow.Grant{Limit: 9, LimitBytes: 10}}}
	frame := appendGrantHead(nil, "typ")
	for i := range sent {
		frame = appendGrant(frame, &sent[i])
	}
	typ, grants, err := parseGrants(frame)
	if err != nil || string(typ) != "typ" || len(grants) != len(sent)*grantBytes {
		t.Fatalf("%q, %d bytes, %v", typ, len(grants), err)
	}
	for i := range sent {
		if got := readGrant(grants[i*grantBytes:]); got != sent[i] {
			t.Errorf("%+v came back for %+v", got, sent[i])
		}
	}
	report := flow.Report{Sent: 1, SentBytes: 2, Limit: 3, LimitBytes: 4, Asked: 5}
	blocked := appendBlocked(nil, "typ", 5, Token{Term: 6, Seq: 7}, report)
	m, got, err := parseReport(blocked)
	if err != nil || got != report || m.shard != 5 || m.token != (Token{Term: 6, Seq: 7}) || string(m.typ) != "typ" {
		t.Errorf("%+v, %+v, %v", m, got, err)
	}
	for n := range frame {
		if _, rest, err := parseGrants(frame[:n]); err == nil && len(rest) != 0 && len(rest) != grantBytes {
			t.Errorf("a grant of %d bytes was read", n)
		}
	}
	for n := range blocked {
		if _, _, err := parseReport(blocked[:n]); err == nil {
			t.Errorf("a report of %d bytes was read", n)
		}
	}
	m, got, err = parseReport(appendShrunk(nil, "typ", 5, Token{Term: 6, Seq: 7}, report))
	if err != nil || got != report || m.shard != 5 || m.token != (Token{Term: 6, Seq: 7}) || string(m.typ) != "typ" {
		t.Errorf("%+v, %+v, %v", m, got, err)
	}
	shrink := appendShrink(nil, "typ", 5, Token{Term: 6, Seq: 7}, 8)
	m, asked, err := parseShrink(shrink)
	if err != nil || asked != 8 || m.shard != 5 || m.token != (Token{Term: 6, Seq: 7}) || string(m.typ) != "typ" {
		t.Errorf("%+v, %d, %v", m, asked, err)
	}
	for n := range shrink {
		if _, _, err := parseShrink(shrink[:n]); err == nil {
			t.Errorf("a question of %d bytes was read", n)
		}
	}
}

// FuzzHandleEntity gives a node whatever bytes: nothing panics, nothing is
// answered with more than it came with and a little.
func FuzzHandleEntity(f *testing.F) {
	f.Add(append(appendSure(nil, "nothing", 0, "a", nil), "x"...))
	f.Add(appendConfirm(nil, "nothing", &confirmation{producer: 1, seq: 1, try: 1}))
	f.Add([]byte{byte(frameHello)})
	f.Add(append(appendRequest(nil, "ear", 3, "e", 0, nil), 1, 2, 3))
	f.Add(appendAsk(nil, "ear", 3, "e", 7, &activation.Sender{Type: "t", ID: "i"}, activation.ParseChain(make([]byte, 16)), 0))
	f.Add(append(appendRequest(nil, "ear", 3, "e", 7, &activation.Sender{Type: "t", ID: "i"}), 1, 2, 3))
	f.Add(appendReply(nil, "ear", 1<<32, codeOK))
	f.Add(appendCancel(nil, "ear", 1<<32))
	f.Add(appendMarker(nil, frameMarker, "ear", 3, Token{}))
	f.Add(appendMarker(nil, frameMarkerAck, "ear", 3, Token{}))
	f.Add(appendGrant(appendGrantHead(nil, "ear"), &granted{shard: 3}))
	f.Add(appendBlocked(nil, "ear", 3, Token{}, flow.Report{Sent: 1}))
	f.Add(appendShrink(nil, "ear", 3, Token{}, 1))
	f.Add(appendShrunk(nil, "ear", 3, Token{}, flow.Report{Sent: 1, Asked: 1}))
	f.Add(appendRefused(nil, Token{}, appendRequest(nil, "ear", 3, "e", 0, nil)))
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
