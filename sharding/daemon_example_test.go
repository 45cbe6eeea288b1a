package sharding_test

import (
	"context"
	"fmt"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// reader reads every n-th partition of something.
type reader struct{ first, step int }

func (r *reader) Handle(_ *sharding.Context, partitions int) ([]int, error) {
	var mine []int
	for p := r.first; p < partitions; p += r.step {
		mine = append(mine, p)
	}
	return mine, nil
}

func ExampleRegisterDaemon() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	node, err := peerage.Start(ctx, peerage.Config{})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	// Two readers run somewhere in the cluster from now on, without a message.
	readers, err := sharding.RegisterDaemon(node.Registry(), sharding.Daemon[int, []int]{
		Name: "readers", Workers: 2, MaxWorkers: 8,
		New: func(worker, workers int) sharding.Entity[int, []int] { return &reader{worker, workers} },
	})
	if err != nil {
		panic(err)
	}
	if err := node.WaitReady(ctx); err != nil {
		panic(err)
	}
	fmt.Println(readers.Scale(ctx, 3), readers.Workers())
	fmt.Println(readers.Ask(ctx, 1, 10, sharding.Retry()))
	// Output:
	// <nil> 3
	// [1 4 7] <nil>
}

// census counts what it is told; the cluster has one.
type census struct{ souls int }

func (c *census) Handle(_ *sharding.Context, born int) (int, error) {
	c.souls += born
	return c.souls, nil
}

func ExampleRegisterSingleton() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	node, err := peerage.Start(ctx, peerage.Config{})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	one, err := sharding.RegisterSingleton(node.Registry(), sharding.Singleton[int, int]{
		Name: "census", New: func() sharding.Entity[int, int] { return &census{} },
	})
	if err != nil {
		panic(err)
	}
	_ = one.Tell(ctx, 2)
	fmt.Println(one.Ask(ctx, 1))
	// Output: 3 <nil>
}
