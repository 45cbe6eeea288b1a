package statetransfer

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"maps"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// arrivalKey names the states of a shard that came from its former home.
type arrivalKey struct {
	typ   string
	shard strategy.ShardID
	from  gossip.NodeID
}

// arrival is a transfer on the side of the new home.
type arrival struct {
	token    protocol.Token
	states   map[string][]byte
	bytes    int
	complete bool
	// arrived is set at the old home once the new one has the states.
	arrived bool
	since   time.Time
}

// arrivals are the states that wait for their shard to be started here.
type arrivals struct {
	mu    sync.Mutex
	all   map[arrivalKey]*arrival
	bytes int
}

const (
	// arrivalsBytesMax bounds the waiting states of all types.
	arrivalsBytesMax = 1 << 30
	// arrivalMax is how long part of a shard's states waits for the rest.
	arrivalMax = time.Minute
)

// addState holds one state. States of a newer allocation replace those of an older one.
func (a *arrivals) addState(k arrivalKey, token protocol.Token, id string, state []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[k]
	if got == nil || got.token.Less(token) {
		a.dropPartial()
		a.dropArrival(k)
		got = &arrival{token: token, states: map[string][]byte{}, since: time.Now()}
		a.all[k] = got
	}
	if got.token != token || a.bytes+len(state) > arrivalsBytesMax {
		return
	}
	got.bytes += len(state) - len(got.states[id])
	a.bytes += len(state) - len(got.states[id])
	got.states[id] = state
}

// holdShard holds the states of a whole shard, or reports that there is no room.
func (a *arrivals) holdShard(k arrivalKey, token protocol.Token, states map[string][]byte, arrived bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropArrival(k)
	got := &arrival{token: token, states: states, since: time.Now(), complete: true, arrived: arrived}
	for _, state := range states { // order-free: a sum
		got.bytes += len(state)
	}
	if a.bytes+got.bytes > arrivalsBytesMax {
		return false
	}
	a.all[k] = got
	a.bytes += got.bytes
	return true
}

// copyStates returns a copy of the held states of an allocation. A sender removes states that
// are too large from the copy, while another goroutine may count the held ones.
func (a *arrivals) copyStates(k arrivalKey, token protocol.Token) map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.all[k]; got != nil && got.token == token {
		return maps.Clone(got.states)
	}
	return nil
}

// discard drops the held states of an allocation and returns them, nil if there are none.
func (a *arrivals) discard(k arrivalKey, token protocol.Token) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[k]
	if got == nil || got.token != token {
		return nil
	}
	a.dropArrival(k)
	return got
}

// takeUndelivered returns the states of a type whose old home is self, and that never arrived.
// It marks them as arrived, so that they are counted as lost only once.
func (a *arrivals) takeUndelivered(typ string, self gossip.NodeID) map[arrivalKey]map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[arrivalKey]map[string][]byte{}
	for k, got := range a.all {
		if k.typ == typ && k.from == self && !got.arrived {
			got.arrived = true
			out[k] = got.states
		}
	}
	return out
}

// completeShard reports whether all states of a transfer are here.
func (a *arrivals) completeShard(k arrivalKey, token protocol.Token, count int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[k]
	if got == nil || got.token != token || len(got.states) != count {
		return false
	}
	got.complete = true
	return true
}

// takeStates removes and returns the states for an allocation of a shard, from its former home.
func (a *arrivals) takeStates(k arrivalKey, token protocol.Token) map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[k]
	a.dropArrival(k)
	if got == nil || !got.complete || !got.token.Less(token) {
		return nil
	}
	return got.states
}

// dropArrival is called with the mutex.
func (a *arrivals) dropArrival(k arrivalKey) {
	if a.all == nil {
		a.all = map[arrivalKey]*arrival{}
	}
	if got := a.all[k]; got != nil {
		a.bytes -= got.bytes
		delete(a.all, k)
	}
}

// dropPartial drops transfers that were abandoned half way; called with the mutex. The region
// core drops whole ones (region.DropState).
func (a *arrivals) dropPartial() {
	for k, got := range a.all {
		if !got.complete && time.Since(got.since) > arrivalMax {
			a.dropArrival(k)
		}
	}
}
