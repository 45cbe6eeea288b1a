package frames

import (
	"testing"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/internal/wire/wiretest"
)

// later encodes the fields of a later version.
const later = "fields of a later version"

// TestFieldsOfLaterVersionsInRequests checks that a request with them keeps all else.
func TestFieldsOfLaterVersionsInRequests(t *testing.T) {
	from := &activation.Sender{Type: "t", ID: "i"}
	for name, flags := range map[string]byte{"tell": 0, "reliable": flagReliable} {
		b := wire.AppendString(appendFlagged(nil, "typ", 3, "id", 0, from, flags|flagLater), later)
		if flags == flagReliable {
			b = append(b, blankStamp[:]...)
		}
		q, err := ParseRequest(append(b, "payload"...))
		if err != nil || string(q.Payload) != "payload" || string(q.FromID) != "i" || (q.Reliable != nil) != (flags != 0) {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
	}
	for name, frame := range map[string][]byte{
		"an unknown flag":      append(appendFlagged(nil, "typ", 3, "id", 0, nil, 0x20), later...),
		"fields beyond bounds": wire.AppendString(appendFlagged(nil, "typ", 3, "id", 0, nil, flagLater), string(make([]byte, laterBytesMax+1))),
		"fields cut short":     wire.AppendUvarint(appendFlagged(nil, "typ", 3, "id", 0, nil, flagLater), 9),
	} {
		if q, err := ParseRequest(frame); err == nil {
			t.Errorf("%s: %+v", name, q)
		}
	}
}

// TestRepliesOfLaterVersions checks fields and codes that this version does not have.
func TestRepliesOfLaterVersions(t *testing.T) {
	r, err := ParseReply(append(wire.AppendString(AppendReply(nil, "typ", 9, CodeHandler|codeLater), later), "text"...))
	if err != nil || r.Code != CodeHandler || string(r.Payload) != "text" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := ParseReply(AppendReply(nil, "typ", 9, 100)); err != nil || r.Code != 100 || r.Call != 9 {
		t.Errorf("a code of a later version: %+v, %v", r, err)
	}
	if r, err := ParseReply(wire.AppendUvarint(AppendReply(nil, "typ", 9, codeLater), 9)); err == nil {
		t.Errorf("fields cut short: %+v", r)
	}
}

// TestFieldsBehindTheLastAreSkipped checks the frames without a payload.
func TestFieldsBehindTheLastAreSkipped(t *testing.T) {
	token := protocol.Token{Term: 6, Seq: 7}
	report := flow.Report{Sent: 1, SentBytes: 2, Limit: 3, LimitBytes: 4, Asked: 5}
	if typ, call, err := ParseCancel(append(AppendCancel(nil, "typ", 9), later...)); err != nil || string(typ) != "typ" || call != 9 {
		t.Errorf("cancel: %q, %d, %v", typ, call, err)
	}
	if m, err := ParseMarker(append(AppendMarker(nil, KindMarker, "typ", 5, token), later...)); err != nil || m.Token != token {
		t.Errorf("marker: %+v, %v", m, err)
	}
	if _, r, err := ParseReport(append(AppendBlocked(nil, "typ", 5, token, report), later...)); err != nil || r != report {
		t.Errorf("blocked: %+v, %v", r, err)
	}
	if _, asked, err := ParseShrink(append(AppendShrink(nil, "typ", 5, token, 8), later...)); err != nil || asked != 8 {
		t.Errorf("shrink: %d, %v", asked, err)
	}
	if s, err := ParseStop(append(AppendStop(nil, "typ", 5, token, "id", flow.Control), later...)); err != nil || s.Gate != flow.Control || string(s.ID) != "id" {
		t.Errorf("stop: %+v, %v", s, err)
	}
	if s, err := ParseStopped(append(AppendStopped(nil, "typ", 5, token, "id"), later...)); err != nil || string(s.ID) != "id" {
		t.Errorf("stopped: %+v, %v", s, err)
	}
}

// TestTheWireIsAsItWas: nodes parse the frames of all wire versions that they speak.
func TestTheWireIsAsItWas(t *testing.T) {
	token, from := protocol.Token{Term: 6, Seq: 7}, &activation.Sender{Type: "t", ID: "i"}
	report := flow.Report{Sent: 1, SentBytes: 2, Limit: 3, LimitBytes: 4, Asked: 5}
	ask := append(AppendAsk(nil, "typ", 3, "id", 9, from, activation.ParseChain(make([]byte, 16)), "\x01k\x01v", 0), "payload"...)
	Stamp(ask, token, 99)
	StampLeft(ask, 5)
	frames := [][]byte{
		append(AppendRequest(nil, "typ", 3, "id", 0, nil), "payload"...), ask, AppendStart(nil, "typ", 3, "id", 9, from),
		append(AppendReliable(nil, "typ", 3, "id", from, ""), "payload"...), append(AppendReply(nil, "typ", 9, CodeHandler), "text"...),
		AppendRefused(nil, token, ask), AppendMarker(nil, KindMarker, "typ", 5, token), AppendMarker(nil, KindMarkerAck, "typ", 5, token),
		AppendCancel(nil, "typ", 9), AppendConfirm(nil, "typ", &Confirmation{Shard: 5, Producer: 6, Seq: 9, Try: 2, Outcome: 1, All: true, Code: CodeHandler, Text: "no"}),
		AppendGrant(AppendGrantHead(nil, "typ"), &Grant{3, token, flow.Grant{Limit: 4, LimitBytes: 5, Asked: 6}}),
		AppendBlocked(nil, "typ", 5, token, report), AppendStop(nil, "typ", 5, token, "id", flow.Control), AppendStopped(nil, "typ", 5, token, "id"),
		AppendShrink(nil, "typ", 5, token, 8), AppendShrunk(nil, "typ", 5, token, report), AppendDismiss(nil, "typ", 5, token, "id"),
		append(AppendStandby(nil, "typ"), "message"...),
	}
	wiretest.Frozen(t, frames, func(_ uint16, frame []byte) ([]byte, error) { return frame, parseAny(frame) })
}

// parseAny parses a frame of any kind.
func parseAny(frame []byte) (err error) {
	switch KindOf(frame) {
	case KindTell, KindAsk:
		_, err = ParseRequest(frame)
	case KindReply:
		_, err = ParseReply(frame)
	case KindRefused:
		_, _, _, err = ParseRefused(frame)
	case KindMarker, KindMarkerAck:
		_, err = ParseMarker(frame)
	case KindCancel:
		_, _, err = ParseCancel(frame)
	case KindConfirm:
		_, _, err = ParseConfirm(frame)
	case KindGrant:
		_, _, err = ParseGrants(frame)
	case KindBlocked, KindShrunk:
		_, _, err = ParseReport(frame)
	case KindStop:
		_, err = ParseStop(frame)
	case KindStopped, KindDismiss:
		_, err = ParseStopped(frame)
	case KindShrink:
		_, _, err = ParseShrink(frame)
	case KindStandby:
		_, _, err = ParseStandby(frame)
	default:
		err = ErrMalformed
	}
	return err
}
