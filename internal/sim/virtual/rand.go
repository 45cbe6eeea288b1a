package virtual

import "time"

// Rand is a generator (PCG RXS-M-XS 64, O'Neill 2014): a seed gives the same numbers in every
// version of Go.
type Rand struct{ state, inc uint64 }

// NewRand returns the generator of one stream of a seed. Each part of the
// simulator has a stream of its own, so a change in one part leaves the draws of the
// rest unchanged.
func NewRand(seed, stream uint64) *Rand {
	r := &Rand{inc: stream<<1 | 1}
	r.Uint64()
	r.state += seed
	r.Uint64()
	return r
}

// Uint64 returns any number.
func (r *Rand) Uint64() uint64 {
	s := r.state
	r.state = s*6364136223846793005 + r.inc
	w := ((s >> ((s >> 59) + 5)) ^ s) * 12605985483714917081
	return w>>43 ^ w
}

// IntN returns a number in [0, n).
func (r *Rand) IntN(n int) int {
	if n <= 1 {
		return 0
	}
	return int(r.Uint64() % uint64(n))
}

// Between returns a number in [lo, hi].
func (r *Rand) Between(lo, hi int) int { return lo + r.IntN(hi-lo+1) }

// Duration returns a duration in [lo, hi].
func (r *Rand) Duration(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(r.Uint64()%uint64(hi-lo+1))
}

// Chance is true with probability percent/100.
func (r *Rand) Chance(percent int) bool { return r.IntN(100) < percent }

// Coin is true half of the time.
func (r *Rand) Coin() bool { return r.Uint64()>>63 == 1 }

// Perm returns the numbers 0..n-1 in random order.
func (r *Rand) Perm(n int) []int {
	p := make([]int, n)
	for i := range p {
		j := r.IntN(i + 1)
		p[i] = p[j]
		p[j] = i
	}
	return p
}

// Subset returns k of the numbers 0..n-1.
func (r *Rand) Subset(n, k int) []int { return r.Perm(n)[:min(k, n)] }
