package replication

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

// registerModel is one register: reads return what was written last.
var registerModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if v := input.(string); v != "" {
			return true, v
		}
		return output == state, state
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%q -> %q", input, output) },
}

// history records operations on one register.
type history struct {
	*campaign
	ops     []porcupine.Operation
	clients int
	// open counts operations under way at each node: the search through their
	// orders grows exponentially with their number.
	open map[gossip.NodeID]int
	// stamp makes the writes, stampRegister by default; answered sees their answers.
	stamp    func(id gossip.NodeID, value string) operation.Op
	answered func(id gossip.NodeID, r Reply)
}

const openMax = 6

// busy reports whether enough is under way at the living.
func (h *history) busy() bool {
	n := 0
	for _, id := range h.order {
		n += h.open[id]
	}
	return n >= openMax
}

const registerKey = "register"

// write begins a write at one of the living.
func (h *history) write() {
	if h.busy() {
		return
	}
	h.writeAt(h.order[h.rng.IntN(len(h.order))])
}

func (h *history) writeAt(id gossip.NodeID) {
	h.open[id]++
	h.n++
	value := fmt.Sprint(id, "/", h.n)
	op := porcupine.Operation{ClientId: h.clients, Input: value, Output: "", Call: int64(h.now), Return: math.MaxInt64}
	h.clients++
	at := len(h.ops)
	h.ops = append(h.ops, op)
	write := stampRegister
	if h.stamp != nil {
		write = h.stamp
	}
	h.onAnswer(id, h.update(id, majority, replicator.Fence{}, write(id, value)), func(r Reply) {
		h.open[id]--
		if h.answered != nil {
			h.answered(id, r)
		}
		if r.Err == nil {
			h.ops[at].Return = int64(h.now)
		}
	})
}

// stampRegister writes the register with the lowest stamp that is above what the core
// knows: no clock helps.
func stampRegister(id gossip.NodeID, value string) operation.Op {
	return operation.Op{Key: registerKey, Kind: crdt.KindLWWRegister, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 64, Entries: []string{""}, Stamped: func(v crdt.Value, above []uint64, _ uint64) crdt.Value {
			return v.(*crdt.LWWRegister[string]).Set(value, crdt.Stamp{Time: above[0] + 1, Node: crdt.NodeID(id)})
		}}, nil
	}}
}

// setRegister writes without asking for stamps.
func setRegister(id gossip.NodeID, value string) operation.Op {
	return Mutate(registerKey, crdt.KindLWWRegister, 64, func(v crdt.Value) crdt.Value {
		r := v.(*crdt.LWWRegister[string])
		return r.Set(value, crdt.Stamp{Time: r.Stamp().Time + 1, Node: crdt.NodeID(id)})
	})
}

func (h *history) readBack() {
	if h.busy() {
		return
	}
	h.readAt(h.order[h.rng.IntN(len(h.order))])
}

func (h *history) readAt(id gossip.NodeID) {
	h.open[id]++
	call, client := int64(h.now), h.clients
	h.clients++
	h.onAnswer(id, h.read(id, majority, replicator.Fence{}, registerKey), func(r Reply) {
		h.open[id]--
		if r.Err != nil {
			return
		}
		got := ""
		if r.Values[0] != nil {
			got, _ = r.Values[0].(*crdt.LWWRegister[string]).Value()
		}
		h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: "", Output: got, Call: call, Return: int64(h.now)})
	})
}

// decided returns the history without the writes that neither were confirmed nor
// ever read: they may never have happened, and would only widen the search.
func (h *history) decided() (out []porcupine.Operation) {
	read := map[any]bool{}
	for _, op := range h.ops {
		read[op.Output] = true
	}
	for _, op := range h.ops {
		if op.Input == "" || op.Return != math.MaxInt64 || read[op.Input] {
			out = append(out, op)
		}
	}
	return out
}

// playRegisters is one random run with a bug in every core.
func playRegisters(t *testing.T, seed uint64) *history {
	// Half of the runs spread nothing beyond what requests ask for: what is stale
	// stays stale until a request finds it.
	lazy := func(c *Config) {
		if seed%2 == 0 {
			c.NoStream, c.GossipEvery, c.SpreadMax, c.ResendAfter = true, time.Minute, time.Minute, 400*time.Millisecond
		}
	}
	h := &history{campaign: &campaign{world: newWorld(t, seed, 3+int(seed%3), lazy), o: oracle{}, nextID: 10}, open: map[gossip.NodeID]int{}}
	h.drop, h.dup = 0.07*float64(seed%4), 0.05
	h.delayMax = time.Duration(1+h.rng.IntN(5)) * time.Millisecond
	for range 200 {
		switch k := h.rng.IntN(16); {
		case k < 6:
			h.write()
		case k < 12:
			h.readBack()
		case k < 14:
			h.change()
		default:
			h.fault()
		}
		h.run(time.Duration(h.rng.IntN(25)) * time.Millisecond)
	}
	h.cut = nil
	h.run(3 * time.Second)
	return h
}

// Majority reads and writes make a linearizable register, across views, crashes,
// partitions, loss and duplication.
func TestMajorityRegistersAreLinearizable(t *testing.T) {
	t.Parallel()
	seeds := uint64(testsize.Runs(15, 25, 60))
	total := 0
	for seed := range seeds {
		h := playRegisters(t, seed)
		total += len(h.ops)
		if res := porcupine.CheckOperationsTimeout(registerModel, h.decided(), 20*time.Second); res != porcupine.Ok {
			t.Fatalf("seed %d: %s: %d operations", seed, res, len(h.ops))
		}
	}
	t.Logf("%d operations in %d histories", total, seeds)
}
