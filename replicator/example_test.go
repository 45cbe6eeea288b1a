package replicator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/replicator/core"
)

func ExampleHandler() {
	alone := func(view.NodeID, transport.Class, []byte) error { return nil }
	r := replicator.New(replicator.Config{Self: 1, Send: alone})
	defer r.Close()
	add := core.Mutate("users", crdt.KindORSet, 20, func(v crdt.Value) crdt.Value {
		return v.(*crdt.ORSet[string]).Add(1, "ada")
	})
	if err := r.Update(context.Background(), []replicator.Op{add}, replicator.Local); err != nil {
		fmt.Println(err)
	}
	// In a program: http.Handle("/replicator/", http.StripPrefix("/replicator", replicator.Handler(r)))
	w := httptest.NewRecorder()
	replicator.Handler(r).ServeHTTP(w, httptest.NewRequest("GET", "/value?key=users", nil))
	var page struct {
		Key, Kind string
		Value     []string
	}
	if err := json.NewDecoder(w.Body).Decode(&page); err != nil {
		fmt.Println(err)
	}
	fmt.Println(page.Key, page.Kind, page.Value)
	// Output: users ORSet[string] [ada]
}
