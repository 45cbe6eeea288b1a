package evict

// Node is the place of one value in a Policy. It is in one Policy at a time.
type Node[V any] struct {
	Value V
	// Hash is the value's key, well mixed; TinyLFU needs it.
	Hash uint64

	prev, next *Node[V]
	// in is the list that contains the node.
	in *list[V]
	// level is the node's level in the main area of TinyLFU.
	level uint8
}

// list is a doubly linked list through its nodes.
type list[V any] struct {
	front, back *Node[V]
	len         int
}

func (l *list[V]) pushFront(n *Node[V]) { l.insertBetween(nil, n, l.front) }

func (l *list[V]) pushBack(n *Node[V]) { l.insertBetween(l.back, n, nil) }

// insertBetween puts n between neighbours; nil is the end of the list.
func (l *list[V]) insertBetween(prev, n, next *Node[V]) {
	n.in = l
	l.connectNodes(prev, n)
	l.connectNodes(n, next)
	l.len++
}

func (l *list[V]) unlink(n *Node[V]) {
	l.connectNodes(n.prev, n.next)
	n.in, n.prev, n.next = nil, nil, nil
	l.len--
}

// connectNodes makes two nodes neighbours; nil is the end of the list.
func (l *list[V]) connectNodes(prev, next *Node[V]) {
	if prev == nil {
		l.front = next
	} else {
		prev.next = next
	}
	if next == nil {
		l.back = prev
	} else {
		next.prev = prev
	}
}
