package sharding

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// cell is an entity that holds one word; readers sees where it was read.
type cell struct {
	word, node string
	reads      *readLog
}

type readLog struct {
	mu sync.Mutex
	at []string
}

func (c *cell) Handle(_ *Context, req string) (string, error) {
	if req != "read" {
		c.word = req
		return c.node, nil
	}
	c.reads.mu.Lock()
	defer c.reads.mu.Unlock()
	c.reads.at = append(c.reads.at, c.node)
	return c.word, nil
}

// TestNoStaleReadAfterAPause (etcd #20418): a home sleeps beyond its lease, is removed,
// and its entity is written at its next home. When it wakes, nobody has told it: whoever
// asks there, in its own process or over a route that still leads to it, must not be
// answered with what the entity held before.
func TestNoStaleReadAfterAPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, reads := newCluster(t), &readLog{}
		var nodes []*node
		var regions []*Region[string, string]
		for _, name := range []string{"n1", "n2", "n3"} {
			n := c.add(name)
			r, err := Register(n.reg, Type[string, string]{Name: "cell", Shards: 16, New: func(string) Entity[string, string] {
				return &cell{node: name, reads: reads}
			}})
			if err != nil {
				t.Fatal(err)
			}
			n.start()
			nodes, regions = append(nodes, n), append(regions, r)
		}
		c.install(nodes...)
		var theirs []string
		for _, id := range someIDs(30) {
			if at, err := regions[0].Ask(within(t, time.Minute), id, "old", Retry()); err != nil {
				t.Fatal(err)
			} else if at == "n3" {
				theirs = append(theirs, id)
			}
		}
		if len(theirs) == 0 {
			t.Fatal("n3 hosts nothing")
		}
		// It sleeps: its clock runs past the lease, and no event reaches it.
		nodes[2].lease.Store(false)
		c.install(nodes[:2]...)
		for _, id := range theirs {
			if at, err := regions[0].Ask(within(t, time.Minute), id, "new", Retry()); err != nil || at == "n3" {
				t.Fatalf("%s is written at %s: %v", id, at, err)
			}
		}
		for _, id := range theirs {
			if word, err := regions[2].Ask(within(t, time.Second), id, "read"); err == nil && word != "new" {
				t.Errorf("%s: n3 reads %q after its pause", id, word)
			} else if err != nil && !errors.Is(err, ErrPaused) {
				t.Errorf("%s: %v", id, err)
			}
			if word, err := regions[1].Ask(within(t, time.Minute), id, "read", Retry()); err != nil || word != "new" {
				t.Errorf("%s: n2 reads %q, %v", id, word, err)
			}
		}
		nodes[2].s.Abandoned()
		pass(time.Second)
		reads.mu.Lock()
		defer reads.mu.Unlock()
		if slices.Contains(reads.at, "n3") {
			t.Errorf("read at %v", reads.at)
		}
	})
}
