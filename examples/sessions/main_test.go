package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/examples/internal/trio"
	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
)

func Example() {
	trio.Main("sessions", startSessions, useSession)
	// Output:
	// ada logs in at node a: map[user:ada]
	// she fills her cart at node b: map[cart:tea user:ada]
	// node a has crashed; node c shows: map[cart:tea user:ada]
	// she logs out: map[]
	// she comes back: no such session: log in
}

// lifetime is that of sessions in these tests.
const lifetime = 4 * time.Second

// startBrief starts a node with sessions that end soon.
func startBrief(ctx context.Context, cfg peerage.Config) (*peerage.Node, *sessions, error) {
	return startNode(ctx, cfg, lifetime)
}

// node is a node of the kit with the region of sessions.
type node = peeragetest.Node[*sessions]

// sendAction sends an action to a session from one node.
func sendAction(t *testing.T, n *node, token string, a action) (map[string]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return n.Service.Ask(ctx, token, a, sharding.Retry())
}

// isRefused reports whether the session itself refused, as one that does not exist does.
func isRefused(err error) bool {
	var refusal *sharding.HandlerError
	return errors.As(err, &refusal) && refusal.Text == errNoSession.Error()
}

// A session lives on when any node crashes, and ends when it is no longer used.
func TestSessionsSurviveCrashesAndExpire(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			c := peeragetest.Start(t, 3, startBrief)
			for i := range 20 {
				if _, err := sendAction(t, c.Node("a"), fmt.Sprint("token", i), action{User: "ada"}); err != nil {
					t.Fatal(err)
				}
			}
			c.Node(victim).Crash()
			survivor := c.Nodes()[0]
			<-time.After(lifetime - time.Second) // virtual
			for i := range 20 {
				values, err := sendAction(t, survivor, fmt.Sprint("token", i), action{})
				if err != nil || values["user"] != "ada" {
					t.Errorf("token%d after the crash of %s: %v, %v", i, victim, values, err)
				}
			}
			c.AssertSingleInstance()
			<-time.After(lifetime + time.Second)
			for i := range 20 {
				if values, err := sendAction(t, survivor, fmt.Sprint("token", i), action{}); !isRefused(err) {
					t.Errorf("token%d after its time: %v, %v", i, values, err)
				}
			}
		})
	}
}

// Sessions expire without a request, also those that were not used after a crash.
func TestUnusedSessionsExpireAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startBrief)
		for i := range 20 {
			if _, err := sendAction(t, c.Node("a"), fmt.Sprint("token", i), action{User: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		c.Node("b").Crash()
		c.WaitUntil(2*lifetime, "no session is left", func() bool {
			var entities int64
			for _, n := range c.Nodes() {
				entities += int64(n.Service.Stats().Entities)
			}
			return entities == 0
		})
	})
}

// A session that never was is refused, and so is one after its logout.
func TestLogoutEndsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 2, startSessions)
		a, b := c.Node("a"), c.Node("b")
		if _, err := sendAction(t, a, "x", action{}); !isRefused(err) {
			t.Errorf("before the login: %v", err)
		}
		if _, err := sendAction(t, a, "x", action{User: "ada"}); err != nil {
			t.Fatal(err)
		}
		if _, err := sendAction(t, b, "x", action{End: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := sendAction(t, a, "x", action{}); !isRefused(err) {
			t.Errorf("after the logout: %v", err)
		}
	})
}
