package sharding

import (
	"fmt"

	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/trace"
)

// Describe describes a frame of the data path in a recording.
func (f *pathFrame) Describe(names *trace.Names) (record.Class, string) {
	if f.Msg == nil {
		return record.Flow, fmt.Sprintf("%s, shard %s", datapathOps[f.Op], f.Shard)
	}
	if f.Op != datapath.Tell {
		return record.Entity, datapathOps[f.Op] + " " + nameMessage(names, f.Msg)
	}
	return record.Entity, nameMessage(names, f.Msg)
}

// datapathOps are the words for the kinds of frames.
var datapathOps = map[datapath.Op]string{
	datapath.Tell: "message", datapath.Refused: "refused:", datapath.Marker: "marker behind the last message", datapath.MarkerAck: "marker received",
	datapath.Grant: "grants room", datapath.Blocked: "asks for room", datapath.Stop: "stop", datapath.Stopped: "asks whether it must stop",
	datapath.Shrink: "asks for room back", datapath.Shrunk: "returns room",
}

// nameMessage names a message of a caller.
func nameMessage(names *trace.Names, m *datapath.Message) string {
	if m.Copy != nil {
		return fmt.Sprintf("reliable message %d of %s to entity %d, copy %d", m.Copy.Number, names.Name(m.Sender), m.Entity, m.Copy.Stamp.Try)
	}
	kind := "tell"
	if m.Call != 0 {
		kind = "ask"
	}
	return fmt.Sprintf("%s %d of %s to entity %d", kind, m.Seq, names.Name(m.Sender), m.Entity)
}

// Describe describes a chunk of states in a recording.
func (f *stateFrame) Describe(*trace.Names) (record.Class, string) {
	return record.State, fmt.Sprintf("states of shard %s, %d entities", f.chunk.Shard, len(f.chunk.States))
}

// Describe describes the acknowledgement of chunks in a recording.
func (f *stateAckFrame) Describe(*trace.Names) (record.Class, string) {
	return record.State, "states received"
}

// Describe describes a frame of calls in a recording.
func (f *callFrame) Describe(*trace.Names) (record.Class, string) {
	switch f.op {
	case opReply:
		return record.Entity, fmt.Sprintf("answer to ask %d: %v", f.call, f.outcome)
	case opCancel:
		return record.Entity, fmt.Sprintf("ask %d is cancelled", f.call)
	case opFarewell, opFarewellAck:
		return record.Flow, "farewell"
	}
	return record.Flow, "hello"
}

// Describe describes the outcome of a copy in a recording.
func (f *confirmFrame) Describe(*trace.Names) (record.Class, string) {
	return record.Entity, fmt.Sprintf("reliable message %d to shard %s %s", f.seq, f.shard, copyOutcomes[f.outcome])
}

// copyOutcomes are the words for the outcomes of copies.
var copyOutcomes = [...]string{copyHandled: "handled", copyRepeated: "handled before", copyRefused: "refused", copyGap: "refused: another is missing"}

// recordStart records that a shard starts at a process.
func (x *instances) recordStart(i *instance) {
	m, r := x.m, x.m.run
	if r.Record == nil {
		return
	}
	group := x.barGroup(i)
	r.Record.Begin(record.Bar{
		Kind: record.Shard, Host: m.p.Slot, Name: group, Group: group,
		Text: fmt.Sprintf("shard %s of type %s lives at %s, token %s", i.shard, m.spec.Name, m.p.Label, r.Names.Token(i.token)),
	})
}

// recordEnd records that a shard ends at a process.
func (x *instances) recordEnd(i *instance, how string) {
	if x.m.run.Record != nil {
		x.m.run.Record.End(record.Shard, x.m.p.Slot, x.barGroup(i), how)
	}
}

// recordHandler records that a handler begins to work on a message.
func (x *instances) recordHandler(i *instance, msg *datapath.Message) {
	if r := x.m.run; r.Record != nil {
		r.Record.Ran(x.m.p.Slot, x.barGroup(i), msg.Entity, nameMessage(&r.Names, msg))
	}
}

// barGroup names the bars of a shard: t3.
func (x *instances) barGroup(i *instance) string { return x.m.spec.Name + i.shard.String() }
