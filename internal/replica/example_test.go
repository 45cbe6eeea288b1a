package replica_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

func ExampleHandler() {
	alone := func(gossip.NodeID, transport.Class, []byte) error { return nil }
	r := replica.New(replica.Config{Self: 1, Send: alone})
	defer r.Close()
	add := replication.Mutate("users", crdt.KindORSet, 20, func(v crdt.Value) crdt.Value {
		return v.(*crdt.ORSet[string]).Add(1, "ada")
	})
	if err := r.Update(context.Background(), []operation.Op{add}, replicator.Local); err != nil {
		fmt.Println(err)
	}
	// In a program: http.Handle("/replicator/", http.StripPrefix("/replicator", replica.Handler(r)))
	w := httptest.NewRecorder()
	replica.Handler(r).ServeHTTP(w, httptest.NewRequest("GET", "/value?key=users", nil))
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
