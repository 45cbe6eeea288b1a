package sim

import "time"

// pcg is the simulator's own generator (PCG RXS-M-XS 64, O'Neill 2014), so that
// a seed means the same run in every version of Go.
type pcg struct{ state, inc uint64 }

// newPCG returns the generator of one stream of a seed. Each part of the
// simulator has a stream of its own, so a change in one part leaves the draws of the
// rest unchanged.
func newPCG(seed, stream uint64) *pcg {
	r := &pcg{inc: stream<<1 | 1}
	r.u64()
	r.state += seed
	r.u64()
	return r
}

func (r *pcg) u64() uint64 {
	s := r.state
	r.state = s*6364136223846793005 + r.inc
	w := ((s >> ((s >> 59) + 5)) ^ s) * 12605985483714917081
	return w>>43 ^ w
}

// intn returns a number in [0, n).
func (r *pcg) intn(n int) int {
	if n <= 1 {
		return 0
	}
	return int(r.u64() % uint64(n))
}

// between returns a number in [lo, hi].
func (r *pcg) between(lo, hi int) int { return lo + r.intn(hi-lo+1) }

// dur returns a duration in [lo, hi].
func (r *pcg) dur(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(r.u64()%uint64(hi-lo+1))
}

// chance is true with probability percent/100.
func (r *pcg) chance(percent int) bool { return r.intn(100) < percent }

func (r *pcg) coin() bool { return r.u64()>>63 == 1 }

// perm returns the numbers 0..n-1 in random order.
func (r *pcg) perm(n int) []int {
	p := make([]int, n)
	for i := range p {
		j := r.intn(i + 1)
		p[i] = p[j]
		p[j] = i
	}
	return p
}

// subset returns k of the numbers 0..n-1.
func (r *pcg) subset(n, k int) []int { return r.perm(n)[:min(k, n)] }
