package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/peeragetest"
)

// node is a node of the kit with what startNode serves.
type node = peeragetest.Node[http.Handler]

// serve sends a request to the service of one node, and returns the items of the answer.
func serve(ctx context.Context, n *node, method, path string) (items map[string]int, err error) {
	w := httptest.NewRecorder()
	n.Service.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("%s %s at node %s: %d %s", method, path, n.Name, w.Code, w.Body)
	}
	return items, json.Unmarshal(w.Body.Bytes(), &items)
}

// A rolling update: no request fails, and each cart keeps what was put into it.
func TestCartsMoveInARollingUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startNode)
		for i := range 30 {
			if _, err := serve(t.Context(), c.Node("a"), "POST", fmt.Sprintf("/carts/cart%d/tea", i)); err != nil {
				t.Fatal(err)
			}
		}
		allAnswered := c.KeepCalling(func(ctx context.Context, n *node, i int) error {
			_, err := serve(ctx, n, "GET", fmt.Sprintf("/carts/cart%d", i%30))
			return err
		})
		for _, n := range c.Nodes() {
			n.Stop()
			n.Restart()
			c.WaitReady()
		}
		t.Log(allAnswered(), "requests were answered meanwhile")
		for i := range 30 {
			items, err := serve(t.Context(), c.Node("b"), "GET", fmt.Sprintf("/carts/cart%d", i))
			if err != nil || items["tea"] != 1 {
				t.Errorf("cart%d holds %v, %v", i, items, err)
			}
		}
		c.AssertSingleInstance()
	})
}

// A full cart refuses, and the answer is the cart's own, from every node.
func TestAFullCartRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 2, startNode)
		for i := range 100 {
			n := c.Nodes()[i%2]
			if _, err := serve(t.Context(), n, "POST", fmt.Sprintf("/carts/ada/thing%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range c.Nodes() {
			_, err := serve(t.Context(), n, "POST", "/carts/ada/sugar")
			if want := fmt.Sprintf("POST /carts/ada/sugar at node %s: 409 a cart holds 100 things\n", n.Name); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}
