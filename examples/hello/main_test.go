package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
)

func Example() {
	main()
	// Output: the butler greets Grace Hopper, guest number 2
}

// TestReadmeShowsThisProgram compares the program with the README's, so that the
// one that is shown is the one that runs.
func TestReadmeShowsThisProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(program)+"```\n") {
		t.Error("README.md does not show examples/hello/main.go as it is")
	}
}

// startGreeters starts a node as main does, with settings of the test's own.
func startGreeters(ctx context.Context, cfg peerage.Config) (*peerage.Node, *sharding.Region[string, string], error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), sharding.Type[string, string]{
		Name: "greeter", Shards: 12,
		New: func(string) sharding.Entity[string, string] { return &greeter{} },
	})
	if err != nil {
		return nil, nil, err
	}
	return node, region, node.Start(ctx)
}

// Three nodes share one greeter: it counts the guests of all of them.
func TestTheButlerGreetsTheGuestsOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startGreeters)
		for i, n := range c.Nodes() {
			got, err := n.Service.Ask(t.Context(), "the butler", "Ada")
			if want := fmt.Sprintf("the butler greets Ada, guest number %d", i+1); err != nil || got != want {
				t.Errorf("node %s: %q, %v, want %q", n.Name, got, err, want)
			}
		}
		c.AssertSingleInstance()
	})
}
