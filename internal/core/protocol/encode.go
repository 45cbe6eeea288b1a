package protocol

import "github.com/peerage-go/peerage/internal/wire"

// Append appends the encoding of m to b: one frame. It never fails; Decode refuses a
// message beyond the limits.
func Append(b []byte, m Message) []byte {
	b = append(b, m.messageKind())
	b = appendHead(b, m.Header())
	switch m := m.(type) {
	case *Register:
		return appendSettings(wire.AppendBool(b, m.Hosts), &m.Settings)
	case *GetHome:
		b = appendSettings(wire.AppendBool(b, m.Hosts), &m.Settings)
		return appendList(b, m.Shards, appendShard)
	case *ShardsHosted:
		return appendList(b, m.Shards, appendShardToken)
	case *BeginAck:
		return appendList(b, m.Shards, appendShardToken)
	case *Stopped:
		return appendList(b, m.Shards, appendShardToken)
	case *CensusReport:
		b = appendSettings(wire.AppendBool(b, m.Hosts), &m.Settings)
		b = appendList(b, m.Claims, appendClaim)
		return appendList(b, m.Held[:min(len(m.Held), HeldMax)], appendHeld)
	case *Homes:
		return appendList(b, m.Homes, appendHome)
	case *HostShards:
		return appendList(b, m.Shards, appendHostOrder)
	case *Begin:
		return appendList(b, m.Shards, appendShardToken)
	case *HandOff:
		b = wire.AppendUvarint(b, uint64(max(m.Within, 0)))
		return appendList(b, m.Shards, appendHandOffOrder)
	case *StoppedAck:
		return appendList(b, m.Shards, appendShardToken)
	case *RegisterRefused:
		b = wire.AppendString(b, m.Conflict.Setting)
		b = wire.AppendString(b, m.Conflict.Here)
		return wire.AppendString(b, m.Conflict.There)
	case *CensusRequest:
		return wire.AppendString(b, m.Role)
	case *Declined:
		return wire.AppendBool(wire.AppendBool(b, m.Missing), m.Unbound)
	case *Query:
		return appendQuery(b, m)
	case *Answer:
		return appendAnswer(b, m)
	case *Drained:
		return wire.AppendUvarint(b, uint64(m.Left))
	}
	return b
}

func appendHead(b []byte, h *Head) []byte {
	b = wire.AppendString(b, h.Type)
	b = wire.AppendUvarint(b, uint64(h.Term))
	b = wire.AppendUvarint(b, uint64(h.View))
	b = wire.AppendUvarint(b, h.Seq)
	return wire.AppendBool(b, h.Probe)
}

func appendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	b = wire.AppendUvarint(b, uint64(len(list)))
	for _, e := range list {
		b = one(b, e)
	}
	return b
}

func appendShard(b []byte, s ShardID) []byte { return wire.AppendUvarint(b, uint64(s)) }

func appendToken(b []byte, t Token) []byte {
	return wire.AppendUvarint(wire.AppendUvarint(b, uint64(t.Term)), t.Seq)
}

func appendShardToken(b []byte, s ShardToken) []byte {
	return appendToken(appendShard(b, s.Shard), s.Token)
}

func appendHome(b []byte, h Home) []byte {
	return appendToken(wire.AppendU64(appendShard(b, h.Shard), uint64(h.Node)), h.Token)
}

func appendHostOrder(b []byte, o HostOrder) []byte {
	return wire.AppendU64(appendToken(appendShard(b, o.Shard), o.Token), uint64(o.From))
}

func appendHandOffOrder(b []byte, o HandOffOrder) []byte {
	b = appendToken(appendToken(appendShard(b, o.Shard), o.Token), o.Move)
	return wire.AppendU64(b, uint64(o.To))
}

func appendClaim(b []byte, c Claim) []byte {
	b = append(appendToken(appendShard(b, c.Shard), c.Token), byte(c.State))
	if c.State == ClaimStopping {
		b = wire.AppendU64(b, uint64(c.To))
	}
	return b
}

func appendHeld(b []byte, h Held) []byte {
	b = wire.AppendU64(appendToken(appendShard(b, h.Shard), h.Token), uint64(h.From))
	return wire.AppendU64(b, uint64(h.To))
}
