package placement

import (
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/region"
)

// noteTrace keeps a trace event, and updates the counters and states that follow from it.
func (d *TypeDriver) noteTrace(t traceLine) {
	t.at = time.Now()
	d.noteTerm(&t)
	d.trace.addLine(t)
	if t.coordinator {
		d.moves.addLine(&t)
	}
	d.noteSettings(&t)
	switch t.kind {
	case region.TraceStaleTerm, region.TraceStaleToken:
		d.counters.Stale.Add(1)
	case region.TraceFar: // coordinator.TraceFar is the same
		d.noteFar(&t)
	case coordinator.TraceDouble:
		d.noteDuplicate(&t)
	case coordinator.TraceStartFailed:
		d.all.env.Log.Warn("sharding: a shard does not start, and has no home meanwhile; see the log of the node, and restart that if it goes on (please report)",
			"type", d.typ.Name, "shard", t.shard, "node", t.node, "token", t.token, "failed", t.detail)
	}
}

// logMoves logs the shards that the coordinator on this node has given new homes. No action is needed.
func logMoves(log *slog.Logger, typ string, s moveSum) {
	log.Info("sharding: shards run at new homes", "type", typ, "after_failure", s.failure,
		"after_takeover", s.takeover, "in_handoffs", s.handoff, "longest", s.longest.Round(time.Millisecond))
}

// noteFar counts a term that no view can have had, and warns of the first.
func (d *TypeDriver) noteFar(t *traceLine) {
	d.counters.TermsRefused.Add(1)
	if !d.warnedFar {
		d.warnedFar = true
		d.all.env.Log.Warn("sharding: a term far beyond the view was refused, and nothing changed; a member that sends such terms is broken or compromised: stop it",
			"type", d.typ.Name, "node", t.node, "detail", t.detail)
	}
}

// noteDuplicate counts and logs a shard that runs on two nodes: the one with the lower token
// must stop.
func (d *TypeDriver) noteDuplicate(t *traceLine) {
	d.counters.Duplicates.Add(1)
	d.all.env.Log.Error("sharding: duplicate shard activation; stopping the one with the older token (please report)",
		"type", d.typ.Name, "shard", t.shard, "node", t.node, "token", t.token)
}

// noteTerm dates an event by the term in which it happened: its token may be older.
func (d *TypeDriver) noteTerm(t *traceLine) {
	term := &d.regionTerm
	if t.coordinator {
		term = &d.officeTerm
		switch t.kind {
		case coordinator.TraceOffice:
			d.inOffice.Store(uint64(t.token.Term))
			d.all.env.Log.Info("sharding: this node coordinates the type from now on", "type", d.typ.Name, "term", t.token.Term)
		case coordinator.TraceOfficeLeft:
			d.inOffice.Store(0)
			d.all.env.Log.Info("sharding: this node no longer coordinates the type", "type", d.typ.Name)
		}
	}
	*term = max(*term, t.token.Term)
	t.term = *term
}

// noteSettings logs differences of settings that the cores found, and keeps why this node's
// region is not registered, for Status.
func (d *TypeDriver) noteSettings(t *traceLine) {
	switch {
	case t.kind == coordinator.TraceRefused:
		d.all.env.Log.Error("sharding: region refused, its settings differ; give all nodes the same",
			"type", d.typ.Name, "node", t.node, "difference", t.detail)
	case t.kind == coordinator.TraceMessages:
		d.noteMessages(t)
	case t.kind == region.TraceRefused:
		d.registration.setRefused(t.detail)
		if d.endpoint == nil {
			return
		}
		if d.registration.lacksHosts() {
			// That passes, with the next node that comes, while a setting that differs stays.
			d.all.env.Log.Warn("sharding: no node of the type's role runs it", "type", d.typ.Name, "role", d.typ.Role)
			return
		}
		d.endpoint.SetDifference(&t.detail)
		d.all.env.Log.Error("sharding: the coordinator does not register this node; give all nodes the same settings",
			"type", d.typ.Name, "coordinator", t.node, "difference", t.detail)
	case t.kind == region.TraceRegistered:
		d.registration.setRegistered(t.token.Term)
		if d.endpoint != nil {
			d.endpoint.SetDifference(nil)
		}
	}
}

// noteMessages counts a node whose messages have another shape than this one's, and logs the
// first of each term.
func (d *TypeDriver) noteMessages(t *traceLine) {
	if d.endpoint == nil {
		return
	}
	d.counters.MessageShapes.Add(1)
	if d.messagesWarned == t.term {
		return
	}
	d.messagesWarned = t.term
	d.all.env.Log.Warn("sharding: message types differ between nodes; a field that only one of them has arrives empty at the other; "+
		"right during a rolling update that adds fields, else run one version on all nodes",
		"type", d.typ.Name, "node", t.node, "coordinator", d.all.cfg.Self.ID, "differ", t.detail)
}
