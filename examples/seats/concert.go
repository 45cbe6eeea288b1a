package main

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/peerage-go/peerage/sharding"
)

// booking is the message to a concert. The zero booking only asks which seats are taken.
type booking struct{ Seat, Guest string }

// concert is the entity: it maps the seats that are taken to their guests.
type concert struct{ Taken map[string]string }

// Handle handles one message at a time, so it needs no lock. A booking may arrive twice:
// the second one changes nothing and has the same reply.
func (c *concert) Handle(_ *sharding.Context, b booking) (map[string]string, error) {
	guest, taken := c.Taken[b.Seat]
	switch {
	case b.Seat == "":
	case taken && guest != b.Guest:
		return nil, fmt.Errorf("seat %s is taken by %s", b.Seat, guest)
	default:
		c.Taken[b.Seat] = b.Guest
	}
	return maps.Clone(c.Taken), nil // the next message changes the original
}

// Snapshot returns the state, for other nodes to keep.
func (c *concert) Snapshot(*sharding.Context) ([]byte, error) { return json.Marshal(c.Taken) }

// Restore sets the state of a new instance to what a former one had.
func (c *concert) Restore(_ *sharding.Context, state []byte) error {
	return json.Unmarshal(state, &c.Taken)
}

// concerts is the handle for messages to concerts.
type concerts = sharding.Region[booking, map[string]string]

func concertType() sharding.Type[booking, map[string]string] {
	return sharding.Type[booking, map[string]string]{
		Name: "concert",
		New: func(id string) sharding.Entity[booking, map[string]string] {
			return &concert{Taken: map[string]string{}}
		},
		State: sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
	}
}
