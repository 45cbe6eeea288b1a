//go:build race

package sharding

// raceEnabled reports whether the race detector is built in: then every node is strict.
const raceEnabled = true
