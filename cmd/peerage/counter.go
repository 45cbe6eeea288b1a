package main

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

// add is the request of a counter: by how much to raise it, 0 to read it.
type add struct {
	N uint64 `msgpack:"n" json:"n"`
	// Number and From are set by the load's messages without an answer: the Number-th
	// that the process From has sent to the counter.
	Number uint64 `msgpack:"number,omitempty" json:"-"`
	From   uint64 `msgpack:"from,omitempty" json:"-"`
	// Sent is when the load sent this request, on the clock that all processes of a machine
	// share.
	Sent clock.Instant `msgpack:"sent,omitempty" json:"-"`
}

// total is its response.
type total struct {
	Total uint64 `msgpack:"total" json:"total"`
	// Node and Term and Seq tell which instance answered.
	Node string `msgpack:"node" json:"node"`
	Term string `msgpack:"term" json:"term"`
	Seq  uint64 `msgpack:"seq" json:"seq"`
}

// counter is the entity of the node command: a number in memory. It goes with its
// shard when that moves in order, and starts at zero again when its host is killed.
type counter struct {
	entity  uint32
	node    uint64
	name    string
	sum     uint64
	clock   clock.Clock
	history *history.Writer // nil without --history
	// stateBytes is the least size of its state.
	stateBytes int
}

// Handle raises the counter. It writes its record before the answer leaves.
func (c *counter) Handle(ctx *sharding.Context, req add) (total, error) {
	token := ctx.Token()
	if req.Number > 0 {
		c.record(history.Record{
			Op: history.Told, Entity: c.entity, Node: c.node, Term: uint64(token.Term), Seq: token.Seq,
			Sender: req.From, Value: req.Number, Start: c.clock.Now(),
		})
		return total{}, nil
	}
	r := history.Record{
		Op: history.HandlerStarted, Entity: c.entity, Node: c.node,
		Term: uint64(token.Term), Seq: token.Seq, Start: c.clock.Now(), Sent: req.Sent,
	}
	c.record(r)
	c.sum += req.N
	r.Op, r.Value, r.End = history.Handled, c.sum, c.clock.Now()
	c.record(r)
	return total{Total: c.sum, Node: c.name, Term: token.Term.String(), Seq: token.Seq}, nil
}

// Snapshot gives the number to the next home.
func (c *counter) Snapshot(*sharding.Context) ([]byte, error) {
	state := strconv.AppendUint(make([]byte, 0, c.stateBytes), c.sum, 10)
	for len(state) < c.stateBytes {
		state = append(state, ' ')
	}
	return state, nil
}

// Restore takes it there.
func (c *counter) Restore(_ *sharding.Context, state []byte) (err error) {
	c.sum, err = strconv.ParseUint(string(bytes.TrimRight(state, " ")), 10, 64)
	return err
}

func (c *counter) record(r history.Record) {
	if c.history != nil {
		c.history.Write(r)
	}
}

// entityNumber returns the number in an id of the form counter-17; ok is false for any other id.
func entityNumber(id string) (number uint32, ok bool) {
	digits, ok := strings.CutPrefix(id, "counter-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil
}
