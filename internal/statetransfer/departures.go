package statetransfer

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"sync"

	"github.com/peerage-go/peerage/sharding/strategy"
)

// departure names a transfer at the old home.
type departure struct {
	typ   string
	shard strategy.ShardID
	token protocol.Token
}

// departures are the transfers that wait for their acknowledgement.
type departures struct {
	mu    sync.Mutex
	waits map[departure]chan struct{}
}

func (d *departures) awaitAck(t departure) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits == nil {
		d.waits = map[departure]chan struct{}{}
	}
	ch := make(chan struct{})
	d.waits[t] = ch
	return ch
}

func (d *departures) ackReceived(t departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ch := d.waits[t]; ch != nil {
		close(ch)
		delete(d.waits, t)
	}
}

func (d *departures) dropTransfer(t departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waits, t)
}
