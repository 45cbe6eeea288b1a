package mover

import (
	"cmp"
	"time"
)

// Core has the states that leave a node and those that wait on it. It is not safe for
// concurrent use.
type Core struct {
	departures
	arrivals
}

// New returns a Core without states.
func New(cfg Config) *Core {
	cfg.ChunkBytes = cmp.Or(cfg.ChunkBytes, 256<<10)
	cfg.Window = cmp.Or(cfg.Window, 8)
	cfg.Resend = cmp.Or(cfg.Resend, 500*time.Millisecond)
	cfg.HeldBytesMax = cmp.Or(cfg.HeldBytesMax, 1<<30)
	cfg.PartialMax = cmp.Or(cfg.PartialMax, time.Minute)
	c := &Core{arrivals: arrivals{cfg: cfg, all: map[arrivalKey]*arrival{}}}
	c.departures = departures{cfg: cfg, byAlloc: map[Allocation]*Departure{}, held: &c.arrivals}
	return c
}
