package protocol

import (
	"math"

	"github.com/peerage-go/peerage/internal/wire"
)

// messages codes a frame: the kind, the head, and the fields of the message.
var messages = wire.Messages[Message]{
	Kind: Message.messageKind,
	Code: func(m Message, c *wire.Coder) {
		m.Header().codeHead(c)
		m.codeFields(c)
	},
	New: []func() Message{
		kindRegister: newMessage[Register], kindGetHome: newMessage[GetHome], kindShardsHosted: newMessage[ShardsHosted],
		kindBeginAck: newMessage[BeginAck], kindStopped: newMessage[Stopped], kindCensusReport: newMessage[CensusReport],
		kindDrain: newMessage[Drain], kindRefused: newMessage[Refused], kindSeen: newMessage[Seen],
		kindRegisterAck: newMessage[RegisterAck], kindHomes: newMessage[Homes], kindHostShards: newMessage[HostShards],
		kindBegin: newMessage[Begin], kindHandOff: newMessage[HandOff], kindStoppedAck: newMessage[StoppedAck],
		kindCensusRequest: newMessage[CensusRequest], kindDrained: newMessage[Drained],
		kindRegisterRefused: newMessage[RegisterRefused], kindDeclined: newMessage[Declined],
		kindQuery: newMessage[Query], kindAnswer: newMessage[Answer],
	},
}

func newMessage[T any, P interface {
	*T
	Message
}]() Message {
	return P(new(T))
}

// Append appends the encoding of m to b: one frame. It never fails; Decode refuses a
// message beyond the limits.
func Append(b []byte, m Message) []byte { return messages.Append(b, m) }

// Decode reads one frame. The message shares no memory with it. Errors are those
// of package wire.
func Decode(frame []byte) (Message, error) { return messages.Decode(frame) }

func (h *Head) codeHead(c *wire.Coder) {
	c.String("entity type", &h.Type, TypeBytesMax)
	wire.Uvarint(c, &h.Term)
	wire.Uvarint(c, &h.View)
	wire.Uvarint(c, &h.Seq)
	c.Bool(&h.Probe)
}

// codeFields is that of messages without fields beside the head.
func (h *Head) codeFields(*wire.Coder) {}

func (m *Register) codeFields(c *wire.Coder) {
	c.Bool(&m.Hosts)
	m.Settings.codeFields(c)
}

func (m *RegisterRefused) codeFields(c *wire.Coder) {
	c.String("setting", &m.Conflict.Setting, TypeBytesMax)
	c.String("value", &m.Conflict.Here, TypeBytesMax)
	c.String("value", &m.Conflict.There, TypeBytesMax)
}

func (m *Declined) codeFields(c *wire.Coder) {
	c.Bool(&m.Missing)
	c.Bool(&m.Unbound)
}

func (m *GetHome) codeFields(c *wire.Coder) {
	c.Bool(&m.Hosts)
	m.Settings.codeFields(c)
	wire.Slice(c, "shards", &m.Shards, ShardsMax, codeShard)
}

func (m *Homes) codeFields(c *wire.Coder) {
	wire.Slice(c, "homes", &m.Homes, ShardsMax, (*Home).codeFields)
}

func (m *HostShards) codeFields(c *wire.Coder) {
	wire.Slice(c, "shards", &m.Shards, HostOrdersMax, (*HostOrder).codeFields)
}

func (m *ShardsHosted) codeFields(c *wire.Coder) { codeShardTokens(c, &m.Shards) }
func (m *Begin) codeFields(c *wire.Coder)        { codeShardTokens(c, &m.Shards) }
func (m *BeginAck) codeFields(c *wire.Coder)     { codeShardTokens(c, &m.Shards) }
func (m *Stopped) codeFields(c *wire.Coder)      { codeShardTokens(c, &m.Shards) }
func (m *StoppedAck) codeFields(c *wire.Coder)   { codeShardTokens(c, &m.Shards) }

func (m *HandOff) codeFields(c *wire.Coder) {
	wire.Capped(c, &m.Within, math.MaxInt64)
	wire.Slice(c, "shards", &m.Shards, ShardsMax, (*HandOffOrder).codeFields)
}

func (m *CensusRequest) codeFields(c *wire.Coder) { c.String("role", &m.Role, TypeBytesMax) }

func (m *CensusReport) codeFields(c *wire.Coder) {
	c.Bool(&m.Hosts)
	m.Settings.codeFields(c)
	wire.Slice(c, "claims", &m.Claims, ShardsMax, (*Claim).codeFields)
	first := m.Held[:min(len(m.Held), HeldMax)]
	wire.Slice(c, "held states", &first, HeldMax, (*Held).codeFields)
	if c.Reading() {
		m.Held = first
	}
}

func (m *Drained) codeFields(c *wire.Coder) { wire.Uvarint(c, &m.Left) }

func (m *Query) codeFields(c *wire.Coder) {
	wire.Uvarint(c, &m.ID)
	codeShard(&m.Shard, c)
	c.Bool(&m.HasShard)
	c.String("entity", &m.Entity, EntityMax)
	c.Bool(&m.Search)
	c.Bool(&m.Figures)
}

func (m *Answer) codeFields(c *wire.Coder) {
	wire.Uvarint(c, &m.ID)
	c.Bool(&m.Known)
	c.Bool(&m.Hosts)
	c.Bool(&m.Office)
	m.Settings.codeFields(c)
	wire.Uvarint(c, &m.Buffered)
	c.Bool(&m.Lives)
	wire.Slice(c, "shards", &m.Shards, ShardsMax, (*ShardLoad).codeFields)
	newest := m.Events[max(0, len(m.Events)-EventsMax):]
	wire.Slice(c, "events", &newest, EventsMax, (*Event).codeFields)
	if c.Reading() {
		m.Events = newest
	}
	wire.Slice(c, "entities", &m.Entities, EntitiesMax, (*EntityState).codeFields)
	c.String("figures", &m.Figures, FiguresBytesMax)
}

func (e *EntityState) codeFields(c *wire.Coder) {
	codeShard(&e.Shard, c)
	c.String("entity", &e.ID, EntityMax)
	wire.Uvarint(c, &e.Age)
	wire.Uvarint(c, &e.Waiting)
	c.Bool(&e.Running)
	wire.Uvarint(c, &e.StateBytes)
}

// settingsBytesMax bounds the settings of a type, with the fields of later versions.
const settingsBytesMax = 1 << 10

func (s *Settings) codeFields(c *wire.Coder) {
	c.Body("settings", settingsBytesMax, func(c *wire.Coder) {
		wire.Uvarint(c, &s.Shards)
		c.String("role", &s.Role, TypeBytesMax)
		wire.Uvarint(c, &s.Capacity)
		wire.U64(c, &s.ShardOf)
		c.String("keeps", &s.Keeps, keepsBytesMax)
		wire.U64(c, &s.Messages.Requests)
		wire.U64(c, &s.Messages.Responses)
	})
}

func codeShard(s *ShardID, c *wire.Coder) { wire.Bounded(c, "shard", s, ShardsMax-1) }

func (t *Token) codeFields(c *wire.Coder) {
	wire.Uvarint(c, &t.Term)
	wire.Uvarint(c, &t.Seq)
}

func codeShardTokens(c *wire.Coder, list *[]ShardToken) {
	wire.Slice(c, "shards", list, ShardsMax, (*ShardToken).codeFields)
}

func (s *ShardToken) codeFields(c *wire.Coder) {
	codeShard(&s.Shard, c)
	s.Token.codeFields(c)
}

func (h *Home) codeFields(c *wire.Coder) {
	codeShard(&h.Shard, c)
	wire.U64(c, &h.Node)
	h.Token.codeFields(c)
}

func (o *HostOrder) codeFields(c *wire.Coder) {
	codeShard(&o.Shard, c)
	o.Token.codeFields(c)
	wire.U64(c, &o.From)
	if o.From != 0 {
		o.Ended.codeFields(c)
	}
}

func (o *HandOffOrder) codeFields(c *wire.Coder) {
	codeShard(&o.Shard, c)
	o.Token.codeFields(c)
	o.Move.codeFields(c)
	wire.U64(c, &o.To)
}

func (x *Claim) codeFields(c *wire.Coder) {
	codeShard(&x.Shard, c)
	x.Token.codeFields(c)
	wire.Byte(c, "claim state", &x.State, ClaimStarting)
	switch x.State {
	case ClaimHosted, ClaimStarting:
	case ClaimStopping:
		wire.U64(c, &x.To)
	default:
		c.Fail(&wire.LimitError{Field: "claim state", Declared: uint64(x.State), Max: uint64(ClaimStarting)})
	}
}

func (h *Held) codeFields(c *wire.Coder) {
	codeShard(&h.Shard, c)
	h.Token.codeFields(c)
	wire.U64(c, &h.From)
	wire.U64(c, &h.To)
	wire.Uvarint(c, &h.Term)
	c.Bool(&h.Away)
}

func (s *ShardLoad) codeFields(c *wire.Coder) {
	codeShard(&s.Shard, c)
	s.Token.codeFields(c)
	wire.Uvarint(c, &s.Entities)
}

func (e *Event) codeFields(c *wire.Coder) {
	wire.Uvarint(c, &e.Term)
	wire.U64(c, &e.Unix)
	c.Bool(&e.Coordinator)
	c.Bool(&e.HasShard)
	wire.U64(c, &e.Node)
	e.Token.codeFields(c)
	c.Text("kind", &e.Kind, eventTextMax)
	c.Text("detail", &e.Detail, eventTextMax)
}
