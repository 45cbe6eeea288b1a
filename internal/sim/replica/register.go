package replica

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/replicator"
)

// The register, in runs with clocks: a value whose last write wins by the wall clocks of hosts,
// which jump (clocks.go). A write acknowledged at a majority wins over every write that was
// acknowledged before it began (S4), and once the clocks are right again each write is made.

const (
	keyRegister = "register"
	// stampTicks is a millisecond in the time of a stamp, a tick of crdt.HLC.
	stampTicks = 1 << 16
)

// register checks the clients' writes of the register.
type register struct {
	checker invariant.Durable
	// begun and acked have, by word, the times at which its write began and was acknowledged, voters
	// those of the view in which it was.
	begun, acked map[string]virtual.Instant
	voters       map[string][]gossip.NodeID
	// refused has when a node first refused entries of a writer, by the writer's label: their stamps
	// were ahead of its clock.
	refused map[gossip.NodeID]map[string]virtual.Instant
	// exhausted is set once the last era of the key has begun.
	exhausted bool
	writes    int
}

func newRegister() register {
	return register{
		begun: map[string]virtual.Instant{}, acked: map[string]virtual.Instant{}, voters: map[string][]gossip.NodeID{},
		refused: map[gossip.NodeID]map[string]virtual.Instant{},
	}
}

// noteEra records an era of the key that has begun, by the core's words.
func (reg *register) noteEra(detail string) {
	_, numbers, _ := strings.Cut(detail, ": era ")
	era, last, ok := strings.Cut(numbers, " of ")
	reg.exhausted = reg.exhausted || ok && era == last
}

// noteRefused records that a node has refused what a writer has written, since its clock is more than
// a minute behind the stamps.
func (reg *register) noteRefused(by gossip.NodeID, writer string, at virtual.Instant) {
	if reg.refused[by] == nil {
		reg.refused[by] = map[string]virtual.Instant{}
	}
	if _, before := reg.refused[by][writer]; !before {
		reg.refused[by][writer] = at
	}
}

// mayLoseTo reports whether a write may lose to an earlier one: a voter of it had refused what the
// earlier one's writer wrote, so it could not be made above that (GUARANTEES.md, stamps from the
// future).
func (reg *register) mayLoseTo(word, earlier string) bool {
	writer, _, _ := strings.Cut(earlier, "/")
	return slices.ContainsFunc(reg.voters[word], func(id gossip.NodeID) bool {
		at, refused := reg.refused[id][writer]
		return refused && at <= reg.acked[word]
	})
}

// registerClient writes and reads the register by one replicator.
type registerClient struct {
	d   *Driver
	reg *register
}

// writeValue sets the register, and calls answer with the outcome.
func (c *registerClient) writeValue(answer func(error)) {
	d, p, r, reg := c.d, c.d.p, c.d.p.Run, c.reg
	reg.writes++
	word := fmt.Sprintf("%s/%d", p.Label, reg.writes)
	reg.begun[word] = r.Now()
	op := operation.Op{Key: keyRegister, Kind: crdt.KindLWWRegister, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 64, Blind: true, Entries: []string{""}, Stamped: func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
			at := crdt.Stamp{Time: max(above[0]+1, wall*stampTicks), Node: crdt.NodeID(p.Node.ID)}
			if delta := v.(*crdt.LWWRegister[string]).Set(word, at); delta != nil {
				return delta
			}
			return nil
		}}, nil
	}}
	d.Update(replication.Update{Ops: []operation.Op{op}, Level: replicator.Majority(0, 0), Deadline: d.Deadline()}, func(a replication.Reply) {
		if a.Err == nil {
			d.checkMajority()
			reg.acked[word], reg.voters[word] = r.Now(), voters(d.shared.view, d.role)
			d.noteAcked(&reg.checker, word)
		}
		answer(a.Err)
	})
}

// readValue reads the register and checks S4. For each write acknowledged before the read
// began, the value read must not be one that was acknowledged before that write began.
func (c *registerClient) readValue() {
	d, r, reg := c.d, c.d.p.Run, c.reg
	begun := reg.checker.Begin()
	d.Read(replication.Read{Keys: []string{keyRegister}, Deadline: d.Deadline()}, func(a replication.Reply) {
		if a.Err != nil {
			return
		}
		got := ""
		if v, ok := a.Values[0].(*crdt.LWWRegister[string]); ok && v != nil {
			got, _ = v.Value()
		}
		since, acked := reg.acked[got]
		standsAbove := func(word string) bool {
			return got != "" && (got == word || !acked || since >= reg.begun[word] || reg.mayLoseTo(word, got))
		}
		d.judgeRead(&reg.checker, begun, standsAbove)
		r.Hit(coverage.RegisterRead)
	})
}

// useRegister writes and reads the register until the run's faults end.
func (c *registerClient) useRegister() {
	d, r := c.d, c.d.p.Run
	r.After(r.Rand.Clock.Duration(20*time.Millisecond, 400*time.Millisecond), func() {
		if !d.shared.on || r.Calm {
			return
		}
		d.p.Thread.Run(func() {
			if d.shared.view == nil {
				return
			}
			if r.Rand.Clock.Coin() {
				c.readValue()
			} else {
				c.writeValue(func(error) {})
			}
		})
		c.useRegister()
	})
}
