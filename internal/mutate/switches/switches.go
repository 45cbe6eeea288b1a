// Package switches holds the switches of mutants. `go run ./internal/mutate` rewrites copies of
// sources so that each changed place calls a function of this package with the number of its
// mutant. The environment of the test process selects one of them. No source of the tree
// imports this package.
package switches

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"
)

// Variables of the environment that select what the switches do.
const (
	// EnvMutant has the number of the mutant that is switched on.
	EnvMutant = "PEERAGE_MUTANT"
	// EnvReached names a file. The process appends to it the number of each switch that it
	// reaches, once, a line each.
	EnvReached = "PEERAGE_MUTANTS_REACHED"
)

// active is the mutant that is switched on, or 0.
var active, _ = strconv.Atoi(os.Getenv(EnvMutant))

// reached records switches, and is nil in most processes.
var reached = openRecord(os.Getenv(EnvReached))

// record is a file of numbers. Its zero value is not usable.
type record struct {
	mu   sync.Mutex
	file *os.File
	seen map[int]bool
}

func openRecord(path string) *record {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic("switches: " + err.Error())
	}
	return &record{file: f, seen: map[int]bool{}}
}

func (r *record) noteID(id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[id] {
		return
	}
	r.seen[id] = true
	if _, err := fmt.Fprintln(r.file, id); err != nil {
		panic("switches: " + err.Error())
	}
}

// On reports whether the mutant is switched on.
func On(id int) bool {
	if reached != nil {
		reached.noteID(id)
	}
	return id == active
}

// Less compares as < does, and as <= if the mutant is on.
func Less[T cmp.Ordered](id int, a, b T) bool {
	if On(id) {
		return a <= b
	}
	return a < b
}

// LessEqual compares as <= does, and as < if the mutant is on.
func LessEqual[T cmp.Ordered](id int, a, b T) bool {
	if On(id) {
		return a < b
	}
	return a <= b
}

// Greater compares as > does, and as >= if the mutant is on.
func Greater[T cmp.Ordered](id int, a, b T) bool {
	if On(id) {
		return a >= b
	}
	return a > b
}

// GreaterEqual compares as >= does, and as > if the mutant is on.
func GreaterEqual[T cmp.Ordered](id int, a, b T) bool {
	if On(id) {
		return a > b
	}
	return a >= b
}

// Min returns the least of the values, and the greatest if the mutant is on.
func Min[T cmp.Ordered](id int, first T, rest ...T) T {
	if On(id) {
		return greatest(first, rest)
	}
	return least(first, rest)
}

// Max returns the greatest of the values, and the least if the mutant is on.
func Max[T cmp.Ordered](id int, first T, rest ...T) T {
	if On(id) {
		return least(first, rest)
	}
	return greatest(first, rest)
}

func least[T cmp.Ordered](v T, rest []T) T {
	for _, r := range rest {
		v = min(v, r)
	}
	return v
}

func greatest[T cmp.Ordered](v T, rest []T) T {
	for _, r := range rest {
		v = max(v, r)
	}
	return v
}

// number is a type with + and -.
type number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

// Add returns a + b, and a - b if the mutant is on.
func Add[T number](id int, a, b T) T {
	if On(id) {
		return a - b
	}
	return a + b
}

// Subtract returns a - b, and a + b if the mutant is on.
func Subtract[T number](id int, a, b T) T {
	if On(id) {
		return a + b
	}
	return a - b
}
