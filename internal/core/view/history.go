package view

import (
	"slices"

	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
)

// env is the environment of a node's machines: the configuration, the time and the effects
// of the current step, and the source of random waits.
type env struct {
	cfg Config
	rng uint64
	// now and out are those of the current step.
	now clock.Instant
	out *Effects
	// epoch is that of the newest view, for traces.
	epoch gossip.Epoch
}

func (e *env) self() gossip.NodeID { return e.cfg.Self.ID }

func (e *env) sendTo(to gossip.NodeID, m Message) {
	if to != e.self() && to != 0 {
		e.out.Send = append(e.out.Send, Send{To: to, Msg: m})
	}
}

func (e *env) traceEvent(kind string, subject gossip.NodeID, detail string) {
	e.out.Trace = append(e.out.Trace, TraceEvent{Kind: kind, Subject: subject, Epoch: e.epoch, Detail: detail})
}

// margin is how far one clock may run ahead of another over d.
func (e *env) margin(d time.Duration) time.Duration {
	return time.Duration(int64(d)/1e6*int64(e.cfg.DriftPPM)) + time.Microsecond
}

// random draws from the seed: splitmix64.
func (e *env) random() uint64 {
	e.rng += 0x9e3779b97f4a7c15
	z := e.rng
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// upTo draws a random wait below d.
func (e *env) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(e.random() % uint64(d))
}

// history holds the newest view, its predecessor, and the members that views left out.
// Every machine of a node reads it.
type history struct {
	*env
	// view is the newest decided view that this node has learned, nil before the node is
	// admitted. Invariant: it contains this node.
	view *gossip.View
	// before is the predecessor of view, if this node held it.
	before *gossip.View
	// packFrom is Config.PackFrom, or the constant packFrom; tests change it.
	packFrom int
	// joined and status are from this node's own entry in the newest view. Invariant:
	// they never go back.
	joined gossip.Epoch
	status gossip.Status
	// gone holds the members that later views left out, oldest first in goneOrder.
	gone      map[gossip.NodeID]bool
	goneOrder []gossip.NodeID
	// generation is the highest met in any view or attempt.
	generation uint32
	// requested is the view that this node requested last, requestedAt when.
	requested   gossip.Epoch
	requestedAt clock.Instant
}

// goneMax bounds the former members that gone holds.
const goneMax = 1024

// reasonLeftOut returns why v leaves this node out.
func (h *history) reasonLeftOut(v *gossip.View) string {
	for _, d := range v.Out {
		if d.ID != h.self() {
			continue
		}
		if d.Evidence != "" {
			return "left out of the view: " + d.Cause.String() + ", " + d.Evidence
		}
		return "left out of the view: " + d.Cause.String()
	}
	return "left out of the view"
}

// advanceTo makes v, in which this node is me, the newest view, and returns the members that
// it leaves out.
func (h *history) advanceTo(v *gossip.View, me *gossip.Member) (leftOut []gossip.NodeID) {
	if assert.Enabled {
		h.assertNewer(v)
	}
	if h.view != nil {
		leftOut = h.noteLeftOut(v)
	}
	h.before = h.view
	h.view, h.joined, h.status = v, me.Joined, me.Status
	h.epoch = v.Epoch
	h.noteGeneration(max(v.Epoch.Generation(), max(v.Least, 1)-1))
	for i := range v.Foreign {
		h.noteGeneration(v.Foreign[i].Generation)
	}
	h.readmit(v)
	return leftOut
}

// noteLeftOut records the members of the present view that v leaves out, and returns them.
func (h *history) noteLeftOut(v *gossip.View) (leftOut []gossip.NodeID) {
	for i := range h.view.Members {
		id := h.view.Members[i].ID
		if v.Member(id) != nil || h.gone[id] {
			continue
		}
		h.gone[id] = true
		h.goneOrder = append(h.goneOrder, id)
		leftOut = append(leftOut, id)
		h.traceEvent("left out", id, "")
	}
	for len(h.goneOrder) > goneMax {
		delete(h.gone, h.goneOrder[0])
		h.goneOrder = h.goneOrder[1:]
	}
	return leftOut
}

// readmit forgets that members of v were former members. A joining node that was left out before it had
// any view may join again: a leader that is newer than that view admits it.
func (h *history) readmit(v *gossip.View) {
	for i := range v.Members {
		if id := v.Members[i].ID; h.gone[id] {
			delete(h.gone, id)
			h.goneOrder = slices.DeleteFunc(h.goneOrder, func(gone gossip.NodeID) bool { return gone == id })
		}
	}
}

// noteGeneration raises the highest generation met.
func (h *history) noteGeneration(g uint32) { h.generation = max(h.generation, g) }

// votes reports whether this node is a voter of its view.
func (h *history) votes() bool { return h.view != nil && h.status.Votes() }

// packView returns v as a difference from base. It returns v whole if v is small, if there
// is no base, if v did not follow from base by single steps, or if that saves little.
func (h *history) packView(v, base *gossip.View) *SentView {
	if v == nil || base == nil || len(v.Members) < h.packFrom {
		return Whole(v)
	}
	d := difference(v, base)
	if d == nil || !d.saves(v) {
		return Whole(v)
	}
	packed := &gossip.View{Cluster: v.Cluster, Origin: v.Origin, Epoch: v.Epoch, Forks: v.Forks, Standing: v.Standing, TokensFrom: v.TokensFrom, Least: v.Least, Foreign: v.Foreign}
	if v != base { // a holder of base already has its departures
		packed.Out = v.Out
	}
	return &SentView{View: packed, change: d}
}

// ref returns this node's view for receivers that probably hold it.
func (h *history) ref() *SentView { return h.packView(h.view, h.view) }

// unpackView returns the whole view, or nil if this node does not hold the base.
func (h *history) unpackView(v *SentView) *gossip.View {
	switch {
	case v == nil:
		return nil
	case v.change == nil:
		return v.View
	}
	if h.view == nil {
		return nil
	}
	if compareViews(h.view, v.View) == same {
		return h.view
	}
	// The view before the current one serves as a base while its successor is being sent.
	for _, base := range []*gossip.View{h.view, h.before} {
		if base != nil && base.Cluster == v.Cluster && base.Epoch == v.change.base && continues(base, v.View) {
			return v.change.applyTo(v.View, base)
		}
	}
	return nil
}

// requestWholeView requests the whole view to which a message refers, unless another node has been
// asked for it a moment ago: a node that was cut off learns from many others that its view is old.
func (h *history) requestWholeView(from gossip.NodeID, v *SentView) {
	if h.requested == v.Epoch && h.now.Before(h.requestedAt.Add(h.cfg.Ping/asks)) {
		return
	}
	h.requested, h.requestedAt = v.Epoch, h.now
	h.traceEvent("asks for the whole view", from, v.Epoch.String())
	h.sendTo(from, &NeedView{Epoch: v.Epoch})
}

// checkHistory returns an error if this node's entry in the newest view is not as recorded.
func (h *history) checkHistory() error {
	me := h.view.Member(h.self())
	switch {
	case me == nil:
		return fmt.Errorf("%v holds view %v without itself", h.self(), h.view.Epoch)
	case me.Status != h.status || me.Joined != h.joined:
		return fmt.Errorf("%v is %v in its view but has status %v", h.self(), me.Status, h.status)
	case h.generation < h.view.Epoch.Generation():
		return fmt.Errorf("%v has met generation %d, its view is %v", h.self(), h.generation, h.view.Epoch)
	}
	return nil
}
