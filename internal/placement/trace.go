package placement

import (
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// traceLine is one trace event of a core.
type traceLine struct {
	at time.Time
	// term is the one that the core obeyed, or held office in, at the time.
	term        gossip.Epoch
	coordinator bool
	kind        string
	shard       strategy.ShardID
	hasShard    bool
	node        gossip.NodeID
	token       protocol.Token
	detail      string
}

// traceMax is how many events of a type are kept.
const traceMax = 4096

// traceRing keeps the newest events of one type.
type traceRing struct {
	mu    sync.Mutex
	lines []traceLine
	next  int
}

func (t *traceRing) addLine(l traceLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) < traceMax {
		t.lines = append(t.lines, l)
		return
	}
	t.lines[t.next] = l
	t.next = (t.next + 1) % traceMax
}

// shardEvents returns the events about a shard, and those about no shard, oldest first, as
// they are sent: the newest ones that an answer has room for.
func (t *traceRing) shardEvents(shard strategy.ShardID) []protocol.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []protocol.Event
	for i := range t.lines {
		l := &t.lines[(t.next+i)%len(t.lines)]
		if l.hasShard && l.shard != shard {
			continue
		}
		out = append(out, protocol.Event{
			Term: l.term, Unix: l.at.UnixNano(), Coordinator: l.coordinator, HasShard: l.hasShard,
			Node: l.node, Token: l.token, Kind: l.kind, Detail: l.detail,
		})
	}
	return out[max(0, len(out)-protocol.EventsMax):]
}
