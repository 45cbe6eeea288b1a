package load

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/defect"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

// Add is the request of a counter: by how much to raise it, 0 to read it.
type Add struct {
	N uint64 `msgpack:"n" json:"n"`
	// Number and From are set by the load's messages without an answer: the Number-th
	// that the process From has sent to the counter.
	Number uint64 `msgpack:"number,omitempty" json:"-"`
	From   uint64 `msgpack:"from,omitempty" json:"-"`
	// Reliable marks a reliable message. The numbers of these messages are a sequence of
	// their own.
	Reliable bool `msgpack:"reliable,omitempty" json:"-"`
	// Sent is when the load sent this request or message, on the clock that all processes of a machine
	// share.
	Sent clock.Instant `msgpack:"sent,omitempty" json:"-"`
}

// Total is the response of a counter.
type Total struct {
	Total uint64 `msgpack:"total" json:"total"`
	// Node and Term and Seq tell which instance answered.
	Node string `msgpack:"node" json:"node"`
	Term string `msgpack:"term" json:"term"`
	Seq  uint64 `msgpack:"seq" json:"seq"`
}

// Counter is the entity of the node command: a number in memory. It goes with its
// shard when that moves in order, and starts at zero again when its host is killed.
type Counter struct {
	Entity  uint32
	Node    uint64
	Name    string
	sum     uint64
	Clock   clock.Clock
	History *history.Writer // nil without --history
	// StateBytes is the least size of its state.
	StateBytes int
	// forgotten is what a counter with the defect LostAdd has acknowledged and dropped.
	forgotten uint64
}

// Handle raises the counter. It writes its record before the answer leaves.
func (c *Counter) Handle(ctx *sharding.Context, req Add) (Total, error) {
	return c.add(ctx.Token(), req), nil
}

// add is Handle under a token.
func (c *Counter) add(token sharding.Token, req Add) Total {
	if req.Number > 0 {
		c.handleMessage(token, req)
		return Total{}
	}
	r := history.Record{
		Op: history.HandlerStarted, Entity: c.Entity, Node: c.Node,
		Term: uint64(token.Term), Seq: token.Seq, Start: c.Clock.Now(), Sent: req.Sent,
	}
	c.record(r)
	c.sum += req.N
	r.Op, r.Value, r.End = history.Handled, c.sum, c.Clock.Now()
	c.record(r)
	t := Total{Total: c.sum, Node: c.Name, Term: token.Term.String(), Seq: token.Seq}
	if defect.Active() == defect.LostAdd && defect.Every(c.sum+c.forgotten, lostEvery) {
		c.sum -= req.N
		c.forgotten += req.N
	}
	return t
}

// handleMessage handles a message without an answer.
func (c *Counter) handleMessage(token sharding.Token, req Add) {
	r := history.Record{
		Op: history.Told, Entity: c.Entity, Node: c.Node, Term: uint64(token.Term), Seq: token.Seq,
		Sender: req.From, Value: req.Number, Start: c.Clock.Now(), Sent: req.Sent,
	}
	if !req.Reliable {
		c.record(r)
		return
	}
	if defect.Active() == defect.LostMessage && defect.Every(req.Number, lostEvery) {
		return
	}
	r.Op = history.Delivered
	c.record(r)
	time.Sleep(reliableWork)
}

// lostEvery is one in how many additions a counter with the defect LostAdd drops, and one in
// how many reliable messages with the defect LostMessage.
const lostEvery = 5

// Snapshot gives the number to the next home.
func (c *Counter) Snapshot(*sharding.Context) ([]byte, error) {
	state := strconv.AppendUint(make([]byte, 0, c.StateBytes), c.sum, 10)
	for len(state) < c.StateBytes {
		state = append(state, ' ')
	}
	return state, nil
}

// Restore sets the number at the next home.
func (c *Counter) Restore(_ *sharding.Context, state []byte) (err error) {
	c.sum, err = strconv.ParseUint(string(bytes.TrimRight(state, " ")), 10, 64)
	return err
}

func (c *Counter) record(r history.Record) {
	if c.History != nil {
		c.History.Write(r)
	}
}

// EntityNumber returns the number in an id of the form counter-17; ok is false for any other id.
func EntityNumber(id string) (number uint32, ok bool) {
	digits, ok := strings.CutPrefix(id, "counter-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil
}
