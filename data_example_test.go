package peerage_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/replicator"
)

// Keys that begin with "accounts/" survive a stop of the whole cluster, here of one node;
// other keys do not.
func ExampleDataConfig() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	cfg := peerage.Config{
		Name:    "a",
		DataDir: dir,
		Data: map[string]peerage.DataConfig{"": {
			Durable: []string{"accounts/"},
			Expire:  []replicator.Expiry{{Prefix: "sessions/", After: time.Hour}},
		}},
	}
	accounts, sessions := ddata.ORSetKey[string]("accounts/all"), ddata.ORSetKey[string]("sessions/all")
	for range 2 {
		node, err := peerage.Start(ctx, cfg)
		check(err)
		check(node.WaitReady(ctx))
		for _, key := range []ddata.Key[ddata.ORSet[string], *ddata.ORSetTx[string]]{accounts, sessions} {
			set, err := ddata.Get(ctx, node.Data(""), key, ddata.Majority)
			check(err)
			fmt.Println(key, set.Elements())
			check(ddata.Update(ctx, node.Data(""), key, ddata.Majority, func(s *ddata.ORSetTx[string]) error {
				s.Add("ada")
				return nil
			}))
		}
		check(node.Shutdown(ctx))
	}
	// Output:
	// accounts/all []
	// sessions/all []
	// accounts/all [ada]
	// sessions/all []
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
