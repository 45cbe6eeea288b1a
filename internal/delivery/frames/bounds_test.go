package frames

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
)

var someToken = protocol.Token{Term: 3, Seq: 4}

// parsers parse one kind of frame each.
var parsers = map[string]struct {
	frame []byte
	parse func(frame []byte) error
}{
	"tell": {AppendRequest(nil, "typ", 5, "id", 0, &activation.Sender{Type: "t", ID: "i"}), func(b []byte) error { _, err := ParseRequest(b); return err }},
	"ask":  {AppendRequest(nil, "typ", 5, "id", 9, nil), func(b []byte) error { _, err := ParseRequest(b); return err }},
	"chain": {AppendAsk(nil, "typ", 5, "id", 9, &activation.Sender{Type: "t", ID: "i"}, activation.ParseChain(make([]byte, 16)), "", 0),
		func(b []byte) error { _, err := ParseRequest(b); return err }},
	"reliable": {AppendReliable(nil, "typ", 5, "id", nil, ""), func(b []byte) error { _, err := ParseRequest(b); return err }},
	"type":     {AppendRequest(nil, "typ", 5, "", 0, nil)[:tellHead+4], func(b []byte) error { _, err := RequestType(b); return err }},
	"reply":    {AppendReply(nil, "typ", 9, CodeOK), func(b []byte) error { _, err := ParseReply(b); return err }},
	"refused":  {AppendRefused(nil, someToken, AppendRequest(nil, "typ", 5, "id", 0, nil)), func(b []byte) error { _, _, _, err := ParseRefused(b); return err }},
	"cancel":   {AppendCancel(nil, "typ", 9), func(b []byte) error { _, _, err := ParseCancel(b); return err }},
	"confirm":  {AppendConfirm(nil, "typ", &Confirmation{Producer: 1, Seq: 1}), func(b []byte) error { _, _, err := ParseConfirm(b); return err }},
	"marker":   {AppendMarker(nil, KindMarker, "typ", 5, someToken), func(b []byte) error { _, err := ParseMarker(b); return err }},
	"grants":   {AppendGrantHead(nil, "typ"), func(b []byte) error { _, _, err := ParseGrants(b); return err }},
	"report":   {AppendBlocked(nil, "typ", 5, someToken, flow.Report{}), func(b []byte) error { _, _, err := ParseReport(b); return err }},
	"shrink":   {AppendShrink(nil, "typ", 5, someToken, 1), func(b []byte) error { _, _, err := ParseShrink(b); return err }},
	"stop":     {AppendStop(nil, "typ", 5, someToken, "id", flow.Control), func(b []byte) error { _, err := ParseStop(b); return err }},
	"stopped":  {AppendStopped(nil, "typ", 5, someToken, "id"), func(b []byte) error { _, err := ParseStopped(b); return err }},
	"standby":  {AppendStandby(nil, "typ"), func(b []byte) error { _, _, err := ParseStandby(b); return err }},
}

// No part of a frame is one: what is behind the frame's last field must be there, too.
func TestPartsOfFramesAreMalformed(t *testing.T) {
	for name, p := range parsers {
		if err := p.parse(p.frame); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := 1; n < len(p.frame); n++ {
			if err := p.parse(p.frame[:n:n]); err != ErrMalformed {
				t.Errorf("%s: %d of %d bytes: %v", name, n, len(p.frame), err)
			}
		}
	}
}

// Bytes behind the last field of a frame without a payload are fields of later versions, but for a
// list of grants.
func TestFramesWithBytesBehindThem(t *testing.T) {
	for name, want := range map[string]error{"cancel": nil, "marker": nil, "grants": ErrMalformed, "report": nil, "shrink": nil, "stop": nil, "stopped": nil} {
		p := parsers[name]
		if err := p.parse(append(p.frame[:len(p.frame):len(p.frame)], 0)); err != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The longest name of a type, and the longest id, are accepted, and no byte more. Lengths from
// 128 on take two bytes.
func TestStringsOfFramesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		most  int
		frame func(s string) []byte
		parse func(frame []byte) (string, error)
	}{
		"type of a request": {NameBytesMax, func(s string) []byte { return AppendRequest(nil, s, 5, "id", 9, nil) },
			func(b []byte) (string, error) { q, err := ParseRequest(b); return string(q.Type), err }},
		"id of a request": {IDBytesMax, func(s string) []byte { return AppendRequest(nil, "typ", 5, s, 9, nil) },
			func(b []byte) (string, error) { q, err := ParseRequest(b); return string(q.ID), err }},
		"id of a sender": {IDBytesMax, func(s string) []byte {
			return AppendRequest(nil, "typ", 5, "id", 9, &activation.Sender{Type: "t", ID: s})
		},
			func(b []byte) (string, error) { q, err := ParseRequest(b); return string(q.FromID), err }},
		"type of a sender": {NameBytesMax, func(s string) []byte {
			return AppendRequest(nil, "typ", 5, "id", 9, &activation.Sender{Type: s, ID: "i"})
		},
			func(b []byte) (string, error) { q, err := ParseRequest(b); return string(q.FromType), err }},
		"type alone": {NameBytesMax, func(s string) []byte { return AppendRequest(nil, s, 5, "id", 0, nil) },
			func(b []byte) (string, error) { typ, err := RequestType(b); return string(typ), err }},
		"id of a stop": {IDBytesMax, func(s string) []byte { return AppendStopped(nil, "typ", 5, someToken, s) },
			func(b []byte) (string, error) { m, err := ParseStopped(b); return string(m.ID), err }},
		"type of a cancel": {NameBytesMax, func(s string) []byte { return AppendCancel(nil, s, 9) },
			func(b []byte) (string, error) { typ, _, err := ParseCancel(b); return string(typ), err }},
		"type of a reply": {NameBytesMax, func(s string) []byte { return AppendReply(nil, s, 9, CodeOK) },
			func(b []byte) (string, error) { r, err := ParseReply(b); return string(r.Type), err }},
		"text of a confirmation": {TextMax, func(s string) []byte { return AppendConfirm(nil, "typ", &Confirmation{Text: s}) },
			func(b []byte) (string, error) { _, c, err := ParseConfirm(b); return c.Text, err }},
	} {
		for _, n := range []int{1, 63, c.most, c.most + 1} {
			if n > c.most+1 {
				continue
			}
			s := strings.Repeat("x", n)
			got, err := c.parse(c.frame(s))
			if n <= c.most && (err != nil || got != s) || n > c.most && err != ErrMalformed {
				t.Errorf("%s of %d bytes: %d bytes, %v", name, n, len(got), err)
			}
		}
	}
}

// TestLengthsBehindTheEndAreMalformed: a length of two bytes may be that of all bytes behind it,
// and not more. A length whose last byte is missing is malformed too.
func TestLengthsBehindTheEndAreMalformed(t *testing.T) {
	for n, want := range map[int]bool{200: true, 201: false, 199: true} {
		b := append(wire.AppendUvarint(nil, uint64(n)), make([]byte, 200)...)
		s, rest, ok := cutString(b, IDBytesMax)
		if ok != want || ok && (len(s) != n || len(rest) != 200-n) {
			t.Errorf("length %d before 200 bytes: %d bytes, %d behind, %v", n, len(s), len(rest), ok)
		}
	}
	for _, b := range [][]byte{nil, {0x80}, {0xff, 0xff}} {
		if _, _, ok := cutString(b, IDBytesMax); ok {
			t.Errorf("%x is a string", b)
		}
	}
}

// TestUnknownNumbers: outcomes and flags of a later version are malformed. Its codes are passed
// on, so that the call ends.
func TestUnknownNumbers(t *testing.T) {
	for _, code := range []Code{CodeOK, CodeNoWorker, CodeNoWorker + 1, codeLater - 1} {
		if r, err := ParseReply(AppendReply(nil, "typ", 9, code)); err != nil || r.Code != code {
			t.Errorf("reply with code %d: %+v, %v", code, r, err)
		}
		if _, c, err := ParseConfirm(AppendConfirm(nil, "typ", &Confirmation{Code: code})); err != nil || c.Code != code {
			t.Errorf("confirmation with code %d: %+v, %v", code, c, err)
		}
	}
	for outcome := byte(0); outcome <= outcomes; outcome++ {
		for _, all := range []bool{false, true} {
			_, c, err := ParseConfirm(AppendConfirm(nil, "typ", &Confirmation{Outcome: outcome, All: all}))
			if (err == nil) != (outcome < outcomes) || err == nil && (c.Outcome != outcome || c.All != all) {
				t.Errorf("outcome %d, all %v: %+v, %v", outcome, all, c, err)
			}
		}
	}
	for _, flags := range []byte{0x20, 0x40, flagLater} { // the last without its fields
		if _, err := ParseRequest(appendFlagged(nil, "typ", 5, "id", 9, nil, flags)); err != ErrMalformed {
			t.Errorf("flags %x: %v", flags, err)
		}
	}
	if _, err := ParseRequest(AppendRequest(nil, "typ", 5, "id", 9, nil)[:askHead]); err != ErrMalformed {
		t.Errorf("a request without its strings: %v", err)
	}
}

// TestChainsOfRequestsAreBounded: a chain belongs to an ask of an entity, and has 1 to
// activation.ChainMax hashes, all of them.
func TestChainsOfRequestsAreBounded(t *testing.T) {
	from := &activation.Sender{Type: "t", ID: "i"}
	frame := func(call uint64, from *activation.Sender, flags byte, count, hashes int) []byte {
		b := append(appendFlagged(nil, "typ", 5, "id", call, from, flagChain|flags), byte(count))
		return append(b, make([]byte, 8*hashes)...)
	}
	for name, c := range map[string]struct {
		frame []byte
		want  int // hashes, -1 if malformed
	}{
		"one":           {frame(9, from, 0, 1, 1), 1},
		"most":          {frame(9, from, 0, activation.ChainMax, activation.ChainMax), activation.ChainMax},
		"with payload":  {frame(9, from, 0, 2, 3), 2},
		"none":          {frame(9, from, 0, 0, 1), -1},
		"too many":      {frame(9, from, 0, activation.ChainMax+1, activation.ChainMax+1), -1},
		"one missing":   {frame(9, from, 0, 3, 2), -1},
		"of a tell":     {frame(0, from, 0, 1, 1), -1},
		"of no entity":  {frame(9, nil, 0, 1, 1), -1},
		"without count": {appendFlagged(nil, "typ", 5, "id", 9, from, flagChain), -1},
		"reliable":      {frame(0, from, flagReliable, 1, 9), -1},
	} {
		q, err := ParseRequest(c.frame)
		if c.want < 0 && err != ErrMalformed || c.want >= 0 && (err != nil || len(q.Chain) != 8*c.want) {
			t.Errorf("%s: %d bytes of hashes, %v", name, len(q.Chain), err)
		}
	}
}

// TestARequestIsParsedInPlace: nothing of the former request is left.
func TestARequestIsParsedInPlace(t *testing.T) {
	tell, from := AppendRequest(nil, "typ", 6, "other", 0, nil), &activation.Sender{Type: "t", ID: "i"}
	var q Request
	for name, former := range map[string][]byte{
		"ask":      AppendRequest(nil, "typ", 5, "id", 9, nil),
		"chain":    AppendAsk(nil, "typ", 5, "id", 9, from, activation.ParseChain(make([]byte, 16)), "", 0),
		"sender":   AppendRequest(nil, "typ", 5, "id", 0, from),
		"reliable": AppendReliable(nil, "typ", 5, "id", from, ""),
		"start":    AppendStart(nil, "typ", 6, "other", 8, nil),
	} {
		if name == "ask" {
			StampLeft(former, time.Minute)
		}
		if err := errors.Join(q.Parse(former), q.Parse(tell)); err != nil {
			t.Fatal(err)
		}
		if want, _ := ParseRequest(tell); !reflect.DeepEqual(q, want) {
			t.Errorf("behind %s: %+v, want %+v", name, q, want)
		}
		if !IsRequest(former) {
			t.Errorf("%s is no request", name)
		}
	}
	if IsRequest(nil) || IsRequest([]byte{byte(KindReply)}) {
		t.Error("a reply, or nothing, is a request")
	}
}

// TestContradictionsInRequestsAreMalformed: an ask has a call and time left, and a reliable
// message is a tell that has a payload.
func TestContradictionsInRequestsAreMalformed(t *testing.T) {
	late, uncalled := AppendRequest(nil, "typ", 5, "id", 9, nil), AppendRequest(nil, "typ", 5, "id", 9, nil)
	StampLeft(late, -1)
	clear(uncalled[callAt:leftAt])
	for name, frame := range map[string][]byte{
		"an ask without time":   late,
		"an ask without call":   uncalled,
		"a reliable ask":        append(appendFlagged(nil, "typ", 5, "id", 9, nil, flagReliable), blankStamp[:]...),
		"a reliable start":      append(appendFlagged(nil, "typ", 5, "id", 0, nil, flagReliable|FlagStart), blankStamp[:]...),
		"a stamp of producer 0": append(appendFlagged(nil, "typ", 5, "id", 0, nil, flagReliable), make([]byte, len(blankStamp))...),
	} {
		if _, err := ParseRequest(frame); err != ErrMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatCallersLeaveOut: a sender without a type is none, and the text of an error is cut.
func TestWhatCallersLeaveOut(t *testing.T) {
	if q, err := ParseRequest(AppendRequest(nil, "typ", 5, "id", 9, &activation.Sender{ID: "i"})); err != nil || q.FromType != nil || q.FromID != nil {
		t.Errorf("sender %q/%q, %v", q.FromType, q.FromID, err)
	}
	if s, err := ParseStop(AppendStop(nil, "typ", 5, someToken, "id", flow.Control)); err != nil || s.Gate != flow.Control || string(s.ID) != "id" || s.Shard != 5 {
		t.Errorf("%+v, %v", s, err)
	}
	for n, want := range map[int]int{0: 0, TextMax: TextMax, TextMax + 1: TextMax} {
		if got := CutText(strings.Repeat("x", n)); len(got) != want {
			t.Errorf("%d of %d bytes of text are sent", len(got), n)
		}
	}
}

// TestPartsOfFramesHaveNoFlow: the flow of a frame is read before the frame is parsed.
func TestPartsOfFramesHaveNoFlow(t *testing.T) {
	reply := AppendReply(nil, "typ", 7, CodeOK)
	for n := range 9 {
		if got := FlowOf(reply[:n:n]); got != 0 {
			t.Errorf("%d bytes of a reply have flow %x", n, got)
		}
	}
	if got := FlowOf(reply[:9]); got != answersFlow|7 {
		t.Errorf("a reply has flow %x", got)
	}
	grant := AppendGrantHead(nil, "typ")
	if got := FlowOf(AppendRefused(nil, someToken, grant)); got != 0 {
		t.Errorf("a refused grant has flow %x: only requests are refused", got)
	}
	for name, p := range parsers {
		for n := range len(p.frame) {
			FlowOf(p.frame[:n:n]) // must not read beyond the end
		}
		if got := FlowOf(AppendRefused(nil, someToken, p.frame)); (got != 0) != IsRequest(p.frame) && name != "type" {
			t.Errorf("a refused %s has flow %x", name, got)
		}
	}
}
