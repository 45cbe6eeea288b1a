//go:build invariants || race

package assert

// Enabled reports whether assertions are checked.
const Enabled = true
