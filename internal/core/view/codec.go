package view

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// ErrUnknownMessage means that this version does not define the frame's kind.
var ErrUnknownMessage = errors.New("view: unknown message")

// ErrBadView means that a frame holds an impossible view: without members or epoch, or
// with a member twice.
var ErrBadView = errors.New("view: impossible view")

// distinct reports whether there are members, each once and with an id.
func distinct(members []gossip.Member) bool {
	ids := make([]gossip.NodeID, len(members))
	for i := range members {
		ids[i] = members[i].ID
	}
	slices.Sort(ids)
	return len(ids) > 0 && ids[0] != 0 && len(slices.Compact(ids)) == len(members)
}

// NameBytesMax is the most bytes that a view carries of a node's name.
const NameBytesMax = 256

// Limits of the contents of a frame; the frame's size bounds the lists as well.
const (
	roleBytesMax   = 128
	reasonBytesMax = 1024
	metadataMax    = 64
	// The least that the elements of lists take on the wire.
	memberBytesMin = 8 + 1 + 1 + 1 + 1 + 1 + 1 + 1
	forkBytesMin   = 4
	idBytes        = 8
)

// The highest numbers that a frame may hold. Correct nodes never come near: generations
// begin at the wall clock in seconds and are 64 times rarer than views, and a round is
// one attempt to lead. An accepted message raises the receiver's own numbers above those
// in the frame. With the highest possible numbers none would be left, and the cluster
// could never again change its view or elect a leader. The numbers above these limits are
// reserved for nodes that must go above a received number.
const (
	// generationMax is the highest generation that is accepted from another node.
	generationMax = 0xf000_0000
	// leastMax is the highest generation of another cluster that this cluster goes above.
	leastMax = 0xe000_0000
	stepMax  = 0xf000_0000
	roundMax = 1 << 62
)

type tag byte

const (
	tagPing tag = iota + 1
	tagPong
	tagAccept
	tagPreVote
	tagPreVoted
	tagPrepare
	tagPromised
	tagNack
	tagDecided
	tagJoinRequest
	tagJoinRefused
	tagLeaveRequest
	tagYieldRequest
	tagDoubt
	tagDoubted
	tagContest
	tagContested
	tagLeaveNotice
	tagNeedView
	tagJoinPassed
	tagEncounter
	tagSighted
	tagVouch
	tagVouched
	tagConfront
	tagConfronted
)

// Append appends the frame of a message. It panics on a Message of another package.
func Append(b []byte, msg Message) []byte {
	w := writer{b}
	switch m := msg.(type) {
	case *Ping:
		w.putTag(tagPing).putPing(m)
	case *Pong:
		w.putTag(tagPong).putBallot(m.Ballot).u(uint64(m.Epoch)).u(m.Round).i(m.T0).u(uint64(m.Accepted)).putIDs(m.Unreachable)
	case *Accept:
		w.putTag(tagAccept).putView(m.Base).putView(m.Next).bool(m.Emergency).putPing(&m.Ping)
	case *PreVote:
		w.putTag(tagPreVote).putBallot(m.Ballot).putView(m.Base).putIDs(m.Dead).putIDs(m.Weak)
	case *PreVoted:
		w.putTag(tagPreVoted).putBallot(m.Ballot).u(uint64(m.Base)).bool(m.Yes).putBallot(m.Promised).putIDs(m.Hears)
	case *Prepare:
		w.putTag(tagPrepare).putBallot(m.Ballot).putView(m.Base).putIDs(m.Dead).putIDs(m.Weak)
	case *Promised:
		w.putTag(tagPromised).putBallot(m.Ballot).u(uint64(m.Base)).putView(m.Accepted).putBallot(m.AcceptedBallot).
			bool(m.Emergency).u(uint64(m.Generation)).i(m.T0).putIDs(m.Hears)
	case *Nack:
		w.putTag(tagNack).putBallot(m.Ballot).putBallot(m.Promised)
	case *Decided:
		w.putTag(tagDecided).putView(m.View)
	case *JoinRequest:
		w.putTag(tagJoinRequest).putNode(&m.Node).u(uint64(m.Hops)).u(uint64(m.Least))
	case *JoinRefused:
		w.putTag(tagJoinRefused).str(m.Reason)
	case *LeaveRequest:
		w.putTag(tagLeaveRequest)
	case *YieldRequest:
		w.putTag(tagYieldRequest).id(m.Subject)
	case *Doubt:
		w.putTag(tagDoubt).putBallot(m.Ballot).putIDs(m.Dead)
	case *Doubted:
		w.putTag(tagDoubted).putBallot(m.Ballot).putIDs(m.Asked).putIDs(m.Hears)
	case *Contest:
		w.putTag(tagContest).putView(m.View).i(int64(m.Nonce))
	case *Contested:
		w.putTag(tagContested).putView(m.View).i(int64(m.Nonce)).i(int64(m.Proof))
	case *LeaveNotice:
		w.putTag(tagLeaveNotice)
	case *NeedView:
		w.putTag(tagNeedView).u(uint64(m.Epoch))
	case *JoinPassed:
		w.putTag(tagJoinPassed).id(m.Leader)
	case *Encounter:
		w.putTag(tagEncounter).putNode(&m.From).u(uint64(m.Hops)).i(int64(m.Cluster)).i(int64(m.To)).putStanding(m.Standing).u(uint64(m.Verdict)).
			putStanding(m.Judged).u(uint64(m.Generation)).putNodes(m.Nodes).i(int64(m.Nonce)).i(int64(m.Echo))
	case *Sighted:
		w.putTag(tagSighted).i(int64(m.Cluster)).putNodes(m.Nodes)
	case *Vouch:
		w.putTag(tagVouch).i(int64(m.Cluster)).putStanding(m.Standing).putNodes(m.Nodes)
	case *Vouched:
		w.putTag(tagVouched).i(int64(m.Cluster)).putIDs(m.Confirmed)
	case *Confront:
		w.putTag(tagConfront).i(int64(m.Nonce))
	case *Confronted:
		w.putTag(tagConfronted).i(int64(m.Cluster)).putStanding(m.Standing).i(int64(m.Nonce))
	default:
		panic("view: message of another package")
	}
	return w.b
}

// Decode reads a frame. The result does not alias the frame. Decode allocates at most a
// small multiple of the frame, and fails on trailing bytes.
func Decode(frame []byte) (Message, error) {
	r := reader{wire.NewReader(frame)}
	msg := r.readMessage() // what it returns after a failure is dropped
	if err := r.Done(); err != nil {
		return nil, err
	}
	return msg, nil
}

func (r reader) readMessage() Message {
	switch t := tag(r.Byte()); t {
	case tagPing:
		return r.readPing()
	case tagPong:
		return &Pong{Ballot: r.readBallot(), Epoch: r.readEpoch(), Round: r.Uvarint(), T0: r.i(), Accepted: r.readEpoch(), Unreachable: r.readIDs()}
	case tagAccept:
		m := &Accept{Base: r.readView(), Next: r.readView(), Emergency: r.Bool()}
		m.Ping = *r.readPing()
		return m
	case tagPreVote:
		return &PreVote{Ballot: r.readBallot(), Base: r.readView(), Dead: r.readIDs(), Weak: r.readIDs()}
	case tagPreVoted:
		return &PreVoted{Ballot: r.readBallot(), Base: r.readEpoch(), Yes: r.Bool(), Promised: r.readBallot(), Hears: r.readIDs()}
	case tagPrepare:
		return &Prepare{Ballot: r.readBallot(), Base: r.readView(), Dead: r.readIDs(), Weak: r.readIDs()}
	case tagPromised:
		return &Promised{Ballot: r.readBallot(), Base: r.readEpoch(), Accepted: r.readView(), AcceptedBallot: r.readBallot(),
			Emergency: r.Bool(), Generation: r.checkGeneration(r.Uvarint()), T0: r.i(), Hears: r.readIDs()}
	case tagNack:
		return &Nack{Ballot: r.readBallot(), Promised: r.readBallot()}
	case tagDecided:
		return &Decided{View: r.readView()}
	case tagJoinRequest:
		return &JoinRequest{Node: r.readNode(), Hops: uint8(min(r.Uvarint(), 255)), Least: r.readLeast()}
	case tagJoinRefused:
		return &JoinRefused{Reason: r.String("reason", reasonBytesMax)}
	case tagLeaveRequest:
		return &LeaveRequest{}
	case tagYieldRequest:
		return &YieldRequest{Subject: r.id()}
	case tagDoubt:
		return &Doubt{Ballot: r.readBallot(), Dead: r.readIDs()}
	case tagDoubted:
		return &Doubted{Ballot: r.readBallot(), Asked: r.readIDs(), Hears: r.readIDs()}
	case tagContest:
		return &Contest{View: r.readView(), Nonce: r.U64()}
	case tagContested:
		return &Contested{View: r.readView(), Nonce: r.U64(), Proof: r.U64()}
	case tagLeaveNotice:
		return &LeaveNotice{}
	case tagNeedView:
		return &NeedView{Epoch: r.readEpoch()}
	case tagJoinPassed:
		return &JoinPassed{Leader: r.id()}
	default:
		return r.readForeignMessage(t)
	}
}

// readForeignMessage reads the messages between clusters of one name, and those about another
// cluster.
func (r reader) readForeignMessage(t tag) Message {
	switch t {
	case tagEncounter:
		return &Encounter{
			From: r.readNode(), Hops: uint8(min(r.Uvarint(), 255)), Cluster: r.U64(), To: r.U64(), Standing: r.readStanding(),
			Verdict: r.readVerdict(), Judged: r.readStanding(), Generation: r.readLeast(), Nodes: r.readNodes(), Nonce: r.U64(), Echo: r.U64(),
		}
	case tagSighted:
		return &Sighted{Cluster: r.U64(), Nodes: r.readNodes()}
	case tagVouch:
		return &Vouch{Cluster: r.U64(), Standing: r.readStanding(), Nodes: r.readNodes()}
	case tagVouched:
		return &Vouched{Cluster: r.U64(), Confirmed: r.readIDs()}
	case tagConfront:
		return &Confront{Nonce: r.U64()}
	case tagConfronted:
		return &Confronted{Cluster: r.U64(), Standing: r.readStanding(), Nonce: r.U64()}
	}
	r.Fail(ErrUnknownMessage)
	return nil
}

// readLeast reads a generation that this cluster must go above. At most leastMax leaves room
// for takeovers until generationMax.
func (r reader) readLeast() uint32 {
	g := r.Uvarint()
	r.within("generation", g, leastMax)
	return uint32(g)
}

// writer appends fields; each method returns the writer for the next.
type writer struct{ b []byte }

func (w *writer) putTag(t tag) *writer       { w.b = append(w.b, byte(t)); return w }
func (w *writer) u(v uint64) *writer         { w.b = wire.AppendUvarint(w.b, v); return w }
func (w *writer) i(v int64) *writer          { w.b = wire.AppendU64(w.b, uint64(v)); return w }
func (w *writer) bool(v bool) *writer        { w.b = wire.AppendBool(w.b, v); return w }
func (w *writer) id(v gossip.NodeID) *writer { w.b = wire.AppendU64(w.b, uint64(v)); return w }
func (w *writer) str(s string) *writer       { w.b = wire.AppendString(w.b, s); return w }

func (w *writer) putBallot(b Ballot) *writer { return w.u(b.Round).id(b.Node) }

func (w *writer) putIDs(ids []gossip.NodeID) *writer {
	w.u(uint64(len(ids)))
	for _, id := range ids {
		w.id(id)
	}
	return w
}

func (w *writer) putPing(p *Ping) *writer {
	return w.putBallot(p.Ballot).i(int64(p.Cluster)).u(uint64(p.Epoch)).u(p.Round).i(p.Echo).
		i(int64(p.Remaining)).bool(p.Life).putView(p.View).putSecret(p.Secret)
}

// putSecret appends a secret, or one byte if there is none.
func (w *writer) putSecret(s [2]uint64) *writer {
	if s == ([2]uint64{}) {
		return w.bool(false)
	}
	return w.bool(true).i(int64(s[0])).i(int64(s[1]))
}

func (w *writer) putNode(n *gossip.Node) *writer {
	w.id(n.ID).str(n.Name).str(n.Addr).str(n.AppVersion).u(uint64(len(n.Roles)))
	for _, role := range n.Roles {
		w.str(role)
	}
	w.u(uint64(len(n.Metadata)))
	if len(n.Metadata) > 0 {
		for _, key := range slices.Sorted(maps.Keys(n.Metadata)) {
			w.str(key).str(n.Metadata[key])
		}
	}
	return w
}

// reader reads fields.
type reader struct{ *wire.Reader }

func (r reader) i() int64          { return int64(r.U64()) }
func (r reader) id() gossip.NodeID { return gossip.NodeID(r.U64()) }

// readEpoch reads an epoch, and rejects one with which the numbers would soon run out.
func (r reader) readEpoch() gossip.Epoch {
	e := gossip.Epoch(r.Uvarint())
	r.checkGeneration(uint64(e.Generation()))
	r.within("epoch", uint64(uint32(e)), stepMax)
	return e
}

// checkGeneration checks a generation that was read; it reads no bytes itself.
func (r reader) checkGeneration(g uint64) uint32 {
	r.within("generation", g, generationMax)
	return uint32(g)
}

func (r reader) readBallot() Ballot {
	b := Ballot{Round: r.Uvarint(), Node: r.id()}
	r.within("round", b.Round, roundMax)
	return b
}

func (r reader) within(field string, n, most uint64) {
	if n > most {
		r.Fail(&wire.LimitError{Field: field, Declared: n, Max: most})
	}
}

func (r reader) readIDs() []gossip.NodeID {
	n := r.Count("ids", idBytes)
	if n == 0 {
		return nil
	}
	ids := make([]gossip.NodeID, n)
	for i := range ids {
		ids[i] = r.id()
	}
	return ids
}

func (r reader) readPing() *Ping {
	return &Ping{
		Ballot: r.readBallot(), Cluster: r.U64(), Epoch: r.readEpoch(), Round: r.Uvarint(), Echo: r.i(),
		Remaining: time.Duration(r.i()), Life: r.Bool(), View: r.readView(), Secret: r.readSecret(),
	}
}

func (r reader) readSecret() (s [2]uint64) {
	if r.Bool() {
		s = [2]uint64{r.U64(), r.U64()}
		if s == ([2]uint64{}) {
			r.Fail(ErrBadView)
		}
	}
	return s
}

func (r reader) readNode() gossip.Node {
	n := gossip.Node{
		ID: r.id(), Name: r.String("name", NameBytesMax), Addr: r.String("address", NameBytesMax),
		AppVersion: r.String("version", NameBytesMax),
	}
	if count := r.Count("roles", 1); count > 0 {
		n.Roles = make([]string, count)
		for i := range n.Roles {
			n.Roles[i] = r.String("role", roleBytesMax)
		}
	}
	n.Metadata = r.readMetadata()
	return n
}

func (r reader) readMetadata() map[string]string {
	count := r.Count("metadata", 2)
	if count == 0 {
		return nil
	}
	if count > metadataMax {
		r.Fail(&wire.LimitError{Field: "metadata", Declared: uint64(count), Max: metadataMax})
		return nil
	}
	out, last := make(map[string]string, count), ""
	for i := range count {
		key := r.String("metadata key", roleBytesMax)
		if i > 0 && key <= last { // sorted, so equal nodes have equal bytes
			r.Fail(ErrBadView)
			return nil
		}
		out[key], last = r.String("metadata", NameBytesMax), key
	}
	return out
}
