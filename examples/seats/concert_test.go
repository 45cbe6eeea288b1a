package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/peeragetest"
)

// node is a node of the kit with the HTTP API that startService returns.
type node = peeragetest.Node[http.Handler]

// send sends a request to one node, and returns the status and the body of the response.
func send(ctx context.Context, n *node, method, path string) (int, string) {
	w := httptest.NewRecorder()
	n.Service.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
	return w.Code, w.Body.String()
}

// A seat that was sold stays sold, whichever node crashes, and no other guest gets it.
func TestSoldSeatsStaySoldWhenAnyNodeCrashes(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) { // time is virtual: this test takes no second
			c := peeragetest.Start(t, 3, startService)
			for i := range 20 {
				path := fmt.Sprintf("/concerts/concert%d/12/ada", i)
				if code, body := send(t.Context(), c.Node("a"), "PUT", path); code != http.StatusOK {
					t.Fatalf("%s: %d %s", path, code, body)
				}
			}
			c.Node(victim).Crash()
			for i := range 20 {
				for _, n := range c.Nodes() {
					path := fmt.Sprintf("/concerts/concert%d/12/bob", i)
					code, body := send(t.Context(), n, "PUT", path)
					if code != http.StatusConflict || body != "seat 12 is taken by ada\n" {
						t.Errorf("%s at node %s after the crash of %s: %d %s", path, n.Name, victim, code, body)
					}
				}
			}
			c.AssertSingleInstance()
		})
	}
}

// While nodes crash, callers at all nodes race for each seat: one guest gets it.
func TestEachSeatHasOneGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startService)
		var mu sync.Mutex
		sold := map[string]string{}
		allAnswered := c.KeepCalling(func(ctx context.Context, n *node, i int) error {
			seat, guest := fmt.Sprint(i/10), fmt.Sprint("guest", i)
			code, body := send(ctx, n, "PUT", "/concerts/bach/"+seat+"/"+guest)
			mu.Lock()
			defer mu.Unlock()
			switch former, again := sold[seat]; {
			case code == http.StatusConflict:
			case code != http.StatusOK:
				return fmt.Errorf("%d %s", code, body)
			case again:
				return fmt.Errorf("seat %s was sold to %s and %s", seat, former, guest)
			default:
				sold[seat] = guest
			}
			return nil
		})
		for range 10 {
			for _, n := range c.Nodes() {
				n.Crash()
				n.Restart()
				c.WaitReady()
			}
		}
		if n := allAnswered(); n < 50 {
			t.Errorf("only %d calls", n)
		}
		c.AssertSingleInstance()
	})
}

// Requests that can never succeed are the client's mistake.
func TestImpossibleRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 1, startService)
		path := fmt.Sprintf("/concerts/%01000d", 1)
		if code, body := send(t.Context(), c.Node("a"), "GET", path); code != http.StatusBadRequest {
			t.Errorf("an id of 1,000 bytes: %d %s", code, body)
		}
	})
}
