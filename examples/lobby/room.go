package main

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/peerage-go/peerage/sharding"
)

// seats is how many players a game has.
const seats = 4

// quiet is how long a player may be silent.
const quiet = 10 * time.Second

var errFull = errors.New("the game has begun without you: try another room")

// visit is the message to a room: a player is there, or leaves. Players repeat it, to show
// that they are still there.
type visit struct {
	Player string
	Leave  bool
}

// table is the reply: the players in the order in which they came.
type table struct {
	Players []string
	Playing bool
}

// room is the entity, where players wait until there are enough of them.
type room struct {
	table
	seen map[string]time.Time // stays here: clocks of nodes differ
}

// Handle seats a player, or lets the player go.
func (r *room) Handle(ctx *sharding.Context, v visit) (table, error) {
	seated := slices.Contains(r.Players, v.Player)
	switch {
	case v.Leave:
		r.removePlayer(v.Player)
	case !seated && r.Playing:
		return table{}, errFull
	case !seated:
		r.Players = append(r.Players, v.Player)
	}
	r.seen[v.Player] = time.Now()
	r.Playing = r.Playing || len(r.Players) == seats
	if len(r.Players) == 0 {
		ctx.Passivate()
	}
	return table{slices.Clone(r.Players), r.Playing}, nil
}

func (r *room) removePlayer(player string) {
	r.Players = slices.DeleteFunc(r.Players, func(p string) bool { return p == player })
}

// OnStart gives players who were there before a move or a crash time to show up again.
func (r *room) OnStart(ctx *sharding.Context) error {
	r.seen = map[string]time.Time{}
	for _, p := range r.Players {
		r.seen[p] = time.Now()
	}
	return ctx.Every("sweep", quiet/4)
}

// OnTimer removes players who are silent. A room without players ends.
func (r *room) OnTimer(ctx *sharding.Context, _ string) error {
	for _, p := range slices.Clone(r.Players) {
		if time.Since(r.seen[p]) > quiet {
			r.removePlayer(p)
		}
	}
	if len(r.Players) == 0 {
		ctx.Passivate()
	}
	return nil
}

// Snapshot returns the state. An empty room has none.
func (r *room) Snapshot(*sharding.Context) ([]byte, error) {
	if len(r.Players) == 0 {
		return nil, nil
	}
	return json.Marshal(r.table)
}

func (r *room) Restore(_ *sharding.Context, state []byte) error {
	return json.Unmarshal(state, &r.table)
}

// rooms is the handle for messages to rooms.
type rooms = sharding.Region[visit, table]

func roomType() sharding.Type[visit, table] {
	return sharding.Type[visit, table]{
		Name: "room",
		New:  func(string) sharding.Entity[visit, table] { return &room{} },
		// Remembered rooms start again after a crash without a visit, and end if none comes.
		Remember: true,
		State:    sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
	}
}
