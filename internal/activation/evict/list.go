package evict

// list is a doubly linked list through its nodes.
type list[V any] struct {
	front, back *Node[V]
	len         int
}

func (l *list[V]) pushFront(n *Node[V]) {
	n.in, n.prev, n.next = l, nil, l.front
	if l.front == nil {
		l.back = n
	} else {
		l.front.prev = n
	}
	l.front = n
	l.len++
}

func (l *list[V]) pushBack(n *Node[V]) {
	n.in, n.next, n.prev = l, nil, l.back
	if l.back == nil {
		l.front = n
	} else {
		l.back.next = n
	}
	l.back = n
	l.len++
}

func (l *list[V]) remove(n *Node[V]) {
	if n.prev == nil {
		l.front = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.back = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in, n.prev, n.next = nil, nil, nil
	l.len--
}
