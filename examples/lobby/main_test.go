package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/examples/internal/trio"
	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
)

func Example() {
	trio.Main("lobby", startRooms, gatherPlayers)
	// Output:
	// ada: [ada], playing: false
	// bob: [ada bob], playing: false
	// node a crashes
	// eve: [ada bob eve], playing: false
	// joe: [ada bob eve joe], playing: true
	// max: the game has begun without you: try another room
}

// visitRoom sends a visit from one node.
func visitRoom(t *testing.T, n *peeragetest.Node[*rooms], id string, v visit) (table, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return n.Service.Ask(ctx, id, v, sharding.Retry())
}

// While any node crashes, five players come to each room: four play, in the order in which
// they came, and the fifth is refused.
func TestRoomsSeatFourPlayersAcrossACrash(t *testing.T) {
	players := []string{"ada", "bob", "eve", "joe"}
	for _, victim := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			c := peeragetest.Start(t, 3, startRooms)
			for seat, player := range players {
				if seat == 2 {
					c.Node(victim).Crash()
				}
				for i := range 20 {
					nodes := c.Nodes()
					got, err := visitRoom(t, nodes[i%len(nodes)], fmt.Sprint("room", i), visit{Player: player})
					if err != nil || !slices.Equal(got.Players, players[:seat+1]) || got.Playing != (seat == 3) {
						t.Errorf("%s in room%d, crash of %s: %+v, %v", player, i, victim, got, err)
					}
				}
			}
			for i := range 20 {
				got, err := visitRoom(t, c.Nodes()[0], fmt.Sprint("room", i), visit{Player: "max"})
				var refusal *sharding.HandlerError
				if !errors.As(err, &refusal) || refusal.Text != errFull.Error() {
					t.Errorf("the fifth player in room%d: %+v, %v", i, got, err)
				}
			}
			c.AssertSingleInstance()
		})
	}
}

// Silent players are removed and empty rooms end, also after a crash and without a visit.
func TestSilentPlayersAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startRooms)
		for i := range 10 {
			if _, err := visitRoom(t, c.Node("a"), fmt.Sprint("room", i), visit{Player: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		c.Node("b").Crash()
		c.WaitUntil(3*quiet, "no room is left", func() bool {
			left := 0
			for _, n := range c.Nodes() {
				left += int(n.Service.Stats().Entities)
			}
			return left == 0
		})
		got, err := visitRoom(t, c.Node("a"), "room3", visit{Player: "bob"})
		if err != nil || !slices.Equal(got.Players, []string{"bob"}) {
			t.Errorf("a new room: %+v, %v", got, err)
		}
		if got, err = visitRoom(t, c.Node("c"), "room3", visit{Player: "bob", Leave: true}); err != nil || len(got.Players) != 0 {
			t.Errorf("after the last player has left: %+v, %v", got, err)
		}
	})
}
