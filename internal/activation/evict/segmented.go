package evict

// segmented is a segmented LRU, the main area of TinyLFU. A new node enters the lower level;
// a use promotes it to the upper one; a level beyond its room demotes its least recently used
// node.
type segmented[V any] struct {
	levels [len(levelShares)]list[V]
	// room is how many nodes each level may hold; that of the lowest is not read.
	room [len(levelShares)]int
	n    int
}

// levelShares are the levels' shares of the room, lowest first.
var levelShares = [...]float64{0.2, 0.8}

func newSegmented[V any](limit int) *segmented[V] {
	s := &segmented[V]{}
	s.Resize(limit)
	return s
}

func (s *segmented[V]) Add(n *Node[V]) {
	n.level = 0
	s.levels[0].pushFront(n)
	s.n++
}

func (s *segmented[V]) Touch(n *Node[V]) {
	s.levels[n.level].unlink(n)
	if top := uint8(len(s.levels) - 1); n.level < top {
		n.level++
	}
	s.levels[n.level].pushFront(n)
	s.demote()
}

// demote moves down the nodes for which their levels have no room.
func (s *segmented[V]) demote() {
	for i := len(s.levels) - 1; i > 0; i-- {
		for s.levels[i].len > s.room[i] {
			n := s.levels[i].back
			s.levels[i].unlink(n)
			n.level--
			s.levels[i-1].pushFront(n)
		}
	}
}

func (s *segmented[V]) Remove(n *Node[V]) {
	s.levels[n.level].unlink(n)
	s.n--
}

// victim returns the least recently used node of the lowest level that has any.
func (s *segmented[V]) victim() *Node[V] {
	for i := range s.levels {
		if n := s.levels[i].back; n != nil {
			return n
		}
	}
	return nil
}

func (s *segmented[V]) Evict() *Node[V] {
	n := s.victim()
	if n != nil {
		s.Remove(n)
	}
	return n
}

func (s *segmented[V]) Len() int { return s.n }

func (s *segmented[V]) Resize(limit int) {
	for i := range s.room {
		s.room[i] = int(float64(limit) * levelShares[i])
	}
	s.demote()
}
