package protocol

import (
	"math"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// Decode reads one frame. The message shares no memory with it. Errors are those
// of package wire.
func Decode(frame []byte) (Message, error) {
	r := wire.NewReader(frame)
	kind := r.Byte()
	h := readHead(r)
	m := readBody(r, kind, h)
	if m == nil {
		r.Fail(&wire.LimitError{Field: "message kind", Declared: uint64(kind), Max: uint64(kindsEnd) - 1})
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}

func readBody(r *wire.Reader, kind byte, h Head) Message {
	if kind >= firstForRegion {
		return readForRegion(r, kind, h)
	}
	switch kind {
	case kindRegister:
		return &Register{Head: h, Hosts: r.Bool(), Settings: readSettings(r)}
	case kindGetHome:
		return &GetHome{Head: h, Hosts: r.Bool(), Settings: readSettings(r), Shards: readList(r, 1, readShard)}
	case kindShardsHosted:
		return &ShardsHosted{Head: h, Shards: readList(r, 3, readShardToken)}
	case kindBeginAck:
		return &BeginAck{Head: h, Shards: readList(r, 3, readShardToken)}
	case kindStopped:
		return &Stopped{Head: h, Shards: readList(r, 3, readShardToken)}
	case kindCensusReport:
		return readCensusReport(r, h)
	case kindDrain:
		return &Drain{Head: h}
	case kindRefused:
		return &Refused{Head: h}
	case kindSeen:
		return &Seen{Head: h}
	}
	return nil
}

func readForRegion(r *wire.Reader, kind byte, h Head) Message {
	switch kind {
	case kindRegisterAck:
		return &RegisterAck{Head: h}
	case kindHomes:
		return &Homes{Head: h, Homes: readList(r, 11, readHome)}
	case kindHostShards:
		return &HostShards{Head: h, Shards: readList(r, 11, readHostOrder)}
	case kindBegin:
		return &Begin{Head: h, Shards: readList(r, 3, readShardToken)}
	case kindHandOff:
		within := time.Duration(min(r.Uvarint(), math.MaxInt64))
		return &HandOff{Head: h, Within: within, Shards: readList(r, 13, readHandOffOrder)}
	case kindStoppedAck:
		return &StoppedAck{Head: h, Shards: readList(r, 3, readShardToken)}
	case kindCensusRequest:
		return &CensusRequest{Head: h, Role: r.String("role", TypeBytesMax)}
	case kindDeclined:
		return &Declined{Head: h, Missing: r.Bool(), Unbound: r.Bool()}
	case kindDrained:
		return &Drained{Head: h, Left: readUint32(r)}
	case kindQuery:
		return readQuery(r, h)
	case kindAnswer:
		return readAnswer(r, h)
	case kindRegisterRefused:
		return &RegisterRefused{Head: h, Conflict: Conflict{
			Setting: r.String("setting", TypeBytesMax),
			Here:    r.String("value", TypeBytesMax), There: r.String("value", TypeBytesMax),
		}}
	}
	return nil
}

func readHead(r *wire.Reader) Head {
	return Head{
		Type:  r.String("entity type", TypeBytesMax),
		Term:  gossip.Epoch(r.Uvarint()),
		View:  gossip.Epoch(r.Uvarint()),
		Seq:   r.Uvarint(),
		Probe: r.Bool(),
	}
}

func readList[T any](r *wire.Reader, elemBytes int, one func(*wire.Reader) T) []T {
	n := r.Count("entries", elemBytes)
	if n > ShardsMax {
		r.Fail(&wire.LimitError{Field: "entries", Declared: uint64(n), Max: ShardsMax})
		return nil
	}
	if n == 0 {
		return nil
	}
	list := make([]T, 0, n)
	for range n {
		list = append(list, one(r))
	}
	return list
}

func readShard(r *wire.Reader) ShardID {
	v := r.Uvarint()
	if v >= ShardsMax {
		r.Fail(&wire.LimitError{Field: "shard", Declared: v, Max: ShardsMax - 1})
		return 0
	}
	return ShardID(v)
}

func readUint32(r *wire.Reader) uint32 {
	v := r.Uvarint()
	if v > math.MaxUint32 {
		r.Fail(&wire.LimitError{Field: "number", Declared: v, Max: math.MaxUint32})
	}
	return uint32(v)
}

func readToken(r *wire.Reader) Token {
	return Token{Term: gossip.Epoch(r.Uvarint()), Seq: r.Uvarint()}
}

func readShardToken(r *wire.Reader) ShardToken {
	return ShardToken{Shard: readShard(r), Token: readToken(r)}
}

func readHome(r *wire.Reader) Home {
	return Home{Shard: readShard(r), Node: gossip.NodeID(r.U64()), Token: readToken(r)}
}

func readHostOrder(r *wire.Reader) HostOrder {
	return HostOrder{Shard: readShard(r), Token: readToken(r), From: gossip.NodeID(r.U64())}
}

func readHandOffOrder(r *wire.Reader) HandOffOrder {
	return HandOffOrder{Shard: readShard(r), Token: readToken(r), Move: readToken(r), To: gossip.NodeID(r.U64())}
}

func readCensusReport(r *wire.Reader, h Head) *CensusReport {
	m := &CensusReport{
		Head: h, Hosts: r.Bool(), Settings: readSettings(r),
		Claims: readList(r, 4, readClaim), Held: readList(r, 19, readHeld),
	}
	if len(m.Held) > HeldMax {
		r.Fail(&wire.LimitError{Field: "held states", Declared: uint64(len(m.Held)), Max: HeldMax})
	}
	return m
}

func readHeld(r *wire.Reader) Held {
	return Held{Shard: readShard(r), Token: readToken(r), From: gossip.NodeID(r.U64()), To: gossip.NodeID(r.U64())}
}

func readClaim(r *wire.Reader) Claim {
	c := Claim{Shard: readShard(r), Token: readToken(r), State: ClaimState(r.Byte())}
	if c.State != ClaimHosted && c.State != ClaimStopping {
		r.Fail(&wire.LimitError{Field: "claim state", Declared: uint64(c.State), Max: uint64(ClaimStopping)})
	}
	if c.State == ClaimStopping {
		c.To = gossip.NodeID(r.U64())
	}
	return c
}
