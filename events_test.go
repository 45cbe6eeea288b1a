package peerage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/membership"
)

// saying writes events down as lines.
func saying(n *peerage.Node) chan string {
	lines := make(chan string, 1000)
	n.Subscribe(func(ev gossip.Event) {
		line := strings.TrimPrefix(fmt.Sprintf("%T", ev), "gossip.")
		switch ev := ev.(type) {
		case gossip.MemberJoined:
			line += " " + ev.Member.Addr
		case gossip.MemberLeft:
			line += " " + ev.Member.Addr
		case gossip.MemberRemoved:
			line += fmt.Sprintf(" %s: %v %s", ev.Member.Addr, ev.Cause, ev.Evidence)
		case gossip.LeaseChanged:
			line += fmt.Sprintf(" %v", ev.Valid)
		}
		lines <- line
	})
	return lines
}

// sofar returns the lines until now that contain one of the words.
func sofar(lines chan string, words ...string) (out []string) {
	for {
		select {
		case line := <-lines:
			if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) }) {
				out = append(out, line)
			}
		default:
			return out
		}
	}
}

// An application receives the events of a crash, a leave, a partition and its end, over
// incarnations, although another subscriber never returns.
func TestEventsOfANode(t *testing.T) {
	inBubble(t, 5, func(c *cluster) {
		stuck := make(chan struct{})
		defer close(stuck)
		for _, m := range c.nodes {
			m.Subscribe(func(gossip.Event) { <-stuck })
		}
		said := saying(c.nodes[4].Node)
		pass(time.Second)
		welcome := sofar(said, "")
		if len(welcome) != 8 || welcome[0] != "ViewChanged" || welcome[6] != "LeaderChanged" || welcome[7] != "LeaseChanged true" {
			t.Errorf("a new subscriber was told %q", welcome)
		}

		c.net.Crash(c.nodes[1].addr)
		c.until(10*time.Second, "the view is without the dead", func() bool { return len(c.nodes[4].View().Members) == 4 })
		if err := c.nodes[2].Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		c.until(10*time.Second, "the view is without the one that left", func() bool { return len(c.nodes[4].View().Members) == 3 })
		pass(time.Second)
		if got, want := sofar(said, "Member"), []string{
			"MemberRemoved " + c.nodes[1].addr + ": dead sealed refusal", "MemberLeft " + c.nodes[2].addr,
		}; !slices.Equal(got, want) {
			t.Errorf("told of the members: %q, want %q", got, want)
		}

		former := c.nodes[4].Self().ID
		c.net.Split(peerage.CutDropped, []string{c.nodes[4].addr}, []string{c.nodes[0].addr, c.nodes[3].addr})
		c.until(20*time.Second, "the others go on without it", func() bool { return len(c.nodes[0].View().Members) == 2 })
		pass(5 * time.Second)
		if got, want := sofar(said, "Quorum", "Lease"), []string{"LeaseChanged false", "QuorumLost"}; !slices.Equal(got, want) {
			t.Errorf("told of the partition: %q, want %q", got, want)
		}
		c.net.Heal()
		c.until(time.Minute, "it is back as another", func() bool {
			return c.nodes[4].Self().ID != former && len(c.nodes[0].View().Members) == 3 && c.nodes[4].LeaseValid()
		})
		pass(time.Second)
		back := sofar(said, "Member", "Removed", "LeaseChanged")
		if len(back) > 0 && back[0] != "Removed" {
			t.Errorf("the new incarnation begins with %q", back)
		}
		slices.Sort(back)
		if want := []string{"LeaseChanged true", "MemberJoined " + c.nodes[0].addr, "MemberJoined " + c.nodes[3].addr,
			"MemberJoined " + c.nodes[4].addr, "Removed"}; !slices.Equal(back, want) {
			t.Errorf("told of the new incarnation: %q, want %q", back, want)
		}
		if err := c.nodes[4].Close(); err != nil {
			t.Error(err)
		}
		if end := sofar(said, ""); len(end) == 0 || end[len(end)-1] != "Removed" {
			t.Errorf("the end is %q", end)
		}
	})
}

func TestMembershipPage(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		page := func() (s membership.Status) {
			w := httptest.NewRecorder()
			c.nodes[0].Handler().ServeHTTP(w, httptest.NewRequest("GET", "/membership", nil))
			if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := page()
		if s.State != "up" || len(s.View.Members) != 2 || !s.Lease.Leader || s.Protocol.Part != "leader" ||
			len(s.Links) != 1 || s.Links[0].Addr != c.nodes[1].addr || len(s.Recent) == 0 {
			t.Errorf("the page says %+v", s)
		}
		if err := c.nodes[0].Close(); err != nil {
			t.Error(err)
		}
		if s := page(); s.View != nil {
			t.Errorf("a closed node says %+v", s)
		}
	})
}

// Events of the cluster.
func ExampleNode_Subscribe() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, _ := join(ctx, peerage.Config{Name: "a"})
	defer a.Close()
	gone := make(chan struct{})
	a.Subscribe(func(ev gossip.Event) {
		switch ev := ev.(type) {
		case gossip.MemberJoined:
			fmt.Println(ev.Member.Name, "joined")
		case gossip.MemberLeft:
			fmt.Println(ev.Member.Name, "left")
			close(gone)
		case gossip.MemberRemoved:
			fmt.Println(ev.Member.Name, "was removed:", ev.Cause, ev.Evidence)
		case gossip.QuorumLost:
			// Warn the operator that only ev.Reachable can be reached.
		case gossip.Removed:
			// This incarnation has ended, for ev.Reason; the node joins again by itself.
		}
	})
	b, _ := join(ctx, peerage.Config{Name: "b"}, a)
	check(b.Shutdown(ctx))
	<-gone
	// Output:
	// a joined
	// b joined
	// b left
}
