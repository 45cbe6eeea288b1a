package route

// Waiter is the place of a caller whose Item waits for a grant, or for its entity. The caller
// owns it, and passes it to Await.
type Waiter[M any] struct {
	Item Item[M]

	result     Outcome
	prev, next *Waiter[M]
	// in is the queue where it waits, nil once its wait is over.
	in *waiterQueue[M]
	// admitted: the gate of its entity opened for it.
	admitted bool
}

// Withdraw ends the wait of a caller that gives up; false means that a Wake came first.
func (w *Waiter[M]) Withdraw() bool {
	if w.in == nil {
		return false
	}
	w.in.removeWaiter(w)
	return true
}

// waiterQueue holds waiters in the order of arrival.
type waiterQueue[M any] struct{ first, last *Waiter[M] }

func (q *waiterQueue[M]) pushWaiter(w *Waiter[M]) {
	w.prev, w.in = q.last, q
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

func (q *waiterQueue[M]) removeWaiter(w *Waiter[M]) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.in = nil, nil, nil
}
