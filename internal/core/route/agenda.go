package route

// actionSet is a set of due actions. They are performed from the lowest bit up: Hide is first, and
// messages leave when only Freed is due.
type actionSet uint16

const (
	doHide actionSet = 1 << iota
	doMisrouted
	doMarker
	doSettle
	doReport
	doRepeat
	doWake
	doLost
	doFreedID
	doAskGate
	doNeedHome
	doAwaitRoom
	doFlow
	doFreed

	// doListed are the actions whose subjects are in lists.
	doListed = doWake | doLost | doFreedID | doAskGate
)

// agenda holds the actions that events have made due.
type agenda[M any] struct {
	actions actionSet
	// woken, lost, freed and questions are the subjects of Wake, Lost, Freed and AskGate.
	woken            waiterQueue[M]
	lost             []Item[M]
	freed, questions []string
}

// clearDue clears a bit, and reports whether it was set.
func (g *agenda[M]) clearDue(bit actionSet) bool {
	was := g.actions&bit != 0
	g.actions &^= bit
	return was
}

// wakeCaller ends the wait of a caller.
func (g *agenda[M]) wakeCaller(w *Waiter[M], how Outcome) {
	w.in.removeWaiter(w)
	w.result = how
	g.woken.pushWaiter(w)
	g.actions |= doWake
}

// retryAll makes the callers of a queue offer their messages again.
func (g *agenda[M]) retryAll(q *waiterQueue[M]) {
	for q.first != nil {
		g.wakeCaller(q.first, Retry)
	}
}

func (g *agenda[M]) giveUp(it *Item[M]) {
	g.lost = append(g.lost, *it)
	g.actions |= doLost
}

func (g *agenda[M]) freeEntity(id string) {
	g.freed = append(g.freed, id)
	g.actions |= doFreedID
}

func (g *agenda[M]) askGates(ids []string) {
	if len(ids) > 0 {
		g.questions = append(g.questions, ids...)
		g.actions |= doAskGate
	}
}

// nextListed returns an Action whose subject is in a list.
func (g *agenda[M]) nextListed() (a Action[M]) {
	switch {
	case g.actions&doWake != 0:
		w := g.woken.first
		g.woken.removeWaiter(w)
		a.Kind, a.Item, a.Result = Wake, &w.Item, w.result
		if g.woken.first == nil {
			g.clearDue(doWake)
		}
	case g.actions&doLost != 0:
		a.Kind, a.Item = Lost, &g.lost[0]
		if g.lost = g.lost[1:]; len(g.lost) == 0 {
			g.lost = nil
			g.clearDue(doLost)
		}
	case g.actions&doFreedID != 0:
		a.Kind, a.ID = Freed, takeFirst(g, &g.freed, doFreedID)
	default:
		a.Kind, a.ID = AskGate, takeFirst(g, &g.questions, doAskGate)
	}
	return a
}

// takeFirst removes the first of a list, and clears bit if it was the last.
func takeFirst[M any](g *agenda[M], list *[]string, bit actionSet) string {
	first := (*list)[0]
	if *list = (*list)[1:]; len(*list) == 0 {
		*list = nil
		g.clearDue(bit)
	}
	return first
}
