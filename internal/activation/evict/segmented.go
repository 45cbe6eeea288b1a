package evict

// segmented is SegmentedLRU. Who is new enters the lowest level; each use promotes
// by a level; a level that is too full demotes its least recently used.
type segmented[V any] struct {
	shares []float64
	levels []list[V]
	// room is how many each level may hold; that of the lowest is not asked.
	room []int
	n    int
}

var defaultLevels = [...]float64{0.2, 0.8}

func newSegmented[V any](shares []float64, limit int) *segmented[V] {
	if len(shares) == 0 {
		shares = defaultLevels[:]
	}
	s := &segmented[V]{shares: shares, levels: make([]list[V], len(shares)), room: make([]int, len(shares))}
	s.Resize(limit)
	return s
}

func (s *segmented[V]) Add(n *Node[V]) {
	n.level = 0
	s.levels[0].pushFront(n)
	s.n++
}

func (s *segmented[V]) Touch(n *Node[V]) {
	s.levels[n.level].remove(n)
	if top := uint8(len(s.levels) - 1); n.level < top {
		n.level++
	}
	s.levels[n.level].pushFront(n)
	s.settle()
}

// settle demotes what levels have no room for.
func (s *segmented[V]) settle() {
	for i := len(s.levels) - 1; i > 0; i-- {
		for s.levels[i].len > s.room[i] {
			n := s.levels[i].back
			s.levels[i].remove(n)
			n.level--
			s.levels[i-1].pushFront(n)
		}
	}
}

func (s *segmented[V]) Remove(n *Node[V]) {
	s.levels[n.level].remove(n)
	s.n--
}

// victim is the least recently used of the lowest level that has any.
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
		s.room[i] = int(float64(limit) * s.shares[i])
	}
	s.settle()
}
