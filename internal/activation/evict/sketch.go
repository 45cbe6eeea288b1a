package evict

import "math/bits"

// sketch estimates how often keys were used recently: a count-min sketch of four rows of
// 4-bit counters, halved at intervals so that old uses fade.
type sketch struct {
	// table has all rows; each word holds 16 counters.
	table []uint64
	// mask is the number of counters of a row minus 1.
	mask uint64
	// uses since the last halving, halved at halveAt.
	uses, halveAt int
}

const (
	rows         = 4
	counterMax   = 15
	widthFactor  = 4
	halveFactor  = 10
	halvedBits   = 0x7777777777777777
	countersMin  = 64
	perWordShift = 4
	// sketchLimitMax bounds the memory of a sketch: a huge limit may mean no limit.
	sketchLimitMax = 1 << 22
)

// sketchLimit returns the limit for the size of a sketch.
func sketchLimit(limit int) int { return min(max(limit, 1), sketchLimitMax) }

func newSketch(limit int) *sketch {
	s := &sketch{mask: sketchWidth(limit) - 1}
	s.table = make([]uint64, rows*(s.mask+1)>>perWordShift)
	s.halveAt = halveFactor * sketchLimit(limit)
	return s
}

// sketchWidth returns the number of counters of a row, a power of two.
func sketchWidth(limit int) uint64 {
	return max(countersMin, uint64(1)<<bits.Len64(uint64(sketchLimit(limit))*widthFactor-1))
}

// at returns the word and the shift of a key's counter in a row.
func (s *sketch) counterAt(hash uint64, row uint64) (word int, shift uint) {
	h := (hash + row*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	h ^= h >> 32
	i := h&s.mask + row*(s.mask+1)
	return int(i >> perWordShift), uint(i&15) * 4
}

func (s *sketch) addUse(hash uint64) {
	for row := range uint64(rows) {
		w, shift := s.counterAt(hash, row)
		if s.table[w]>>shift&counterMax < counterMax {
			s.table[w] += 1 << shift
		}
	}
	s.uses++
	if s.uses >= s.halveAt {
		s.uses = 0
		for i := range s.table {
			s.table[i] = s.table[i] >> 1 & halvedBits
		}
	}
}

func (s *sketch) estimate(hash uint64) uint64 {
	least := uint64(counterMax)
	for row := range uint64(rows) {
		w, shift := s.counterAt(hash, row)
		least = min(least, s.table[w]>>shift&counterMax)
	}
	return least
}
