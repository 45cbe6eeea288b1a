package membership_test

import (
	"context"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/membership"
)

// A node can be used for membership alone.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	// On a free port of the loopback interface, so without a list of contact points: it
	// forms a cluster.
	a, err := membership.Start(ctx, membership.Config{Name: "a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	if err := a.WaitUp(ctx); err != nil {
		fmt.Println(err)
		return
	}
	b, err := membership.Start(ctx, membership.Config{Name: "b", Join: []string{a.Self().Addr}, BootstrapExpect: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	if err := b.WaitUp(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range b.View().Members {
		fmt.Println(m.Name, m.Status)
	}
	fmt.Println("b may run entities:", b.LeaseValid())
	fmt.Println("b left:", b.Leave(ctx) == nil, b.LeaseValid())
	// Output:
	// a up
	// b up
	// b may run entities: true
	// b left: true false
}
