package peerage_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
)

// fenced is an entity that answers with its token.
type fenced struct{}

func (fenced) Handle(ctx *sharding.Context, _ struct{}) (tokenOf, error) {
	return tokenOf{uint64(ctx.Token().Term), ctx.Token().Seq}, nil
}

// tokenOf is a token as a message.
type tokenOf struct{ Term, Seq uint64 }

// life starts a cluster of n nodes, which keep files in dirs where these are not "", and
// returns the token of one entity and the generation. All nodes have ended afterwards.
func life(t *testing.T, n int, dirs ...string) (token sharding.Token, generation uint32) {
	t.Helper()
	c := &cluster{t: t, net: peerage.NewNetwork(1)}
	c.net.SetUsual(peerage.NetworkPath{Latency: 100 * time.Microsecond})
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("10.0.0.%d:7101", i+1))
	}
	var region *sharding.Region[struct{}, tokenOf]
	for i, addr := range list {
		cfg := peerage.TestConfig()
		cfg.Listen, cfg.Join, cfg.Bootstrap = addr, list, n == 1
		cfg.Network = c.net
		if i < len(dirs) {
			cfg.DataDir = dirs[i]
		}
		node, err := peerage.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		region, err = sharding.Register(node.Registry(), sharding.Type[struct{}, tokenOf]{
			Name: "fenced", Shards: 1, New: func(string) sharding.Entity[struct{}, tokenOf] { return fenced{} },
		})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, &member{Node: node, addr: addr})
	}
	c.ready(c.nodes...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := region.Ask(ctx, "x", struct{}{}, sharding.Retry())
	if err != nil {
		t.Error(err)
	}
	token = sharding.Token{Term: gossip.Epoch(got.Term), Seq: got.Seq}
	generation = c.nodes[0].View().Epoch.Generation()
	c.close()
	return token, generation
}

// Nothing survives but the clock: within one second it must do.
func TestTokensOfTwoLivesWithinOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer pass(time.Minute)
		begin := time.Now()
		first, _ := life(t, 1)
		pass(20 * time.Millisecond) // a process takes longer to start
		second, _ := life(t, 1)
		if took := time.Since(begin); took > time.Second {
			t.Fatalf("the two lives took %v", took)
		}
		if !first.Less(second) {
			t.Errorf("tokens %v, then %v", first, second)
		}
	})
}

// All nodes stop, the clock is set back by an hour, and all start again. Each bubble begins
// at the same wall time. One file is enough, also when it is not that of the node that forms.
func TestTokensStayAheadOfAClockThatIsSetBack(t *testing.T) {
	dir := t.TempDir()
	var first sharding.Token
	var generation uint32
	synctest.Test(t, func(t *testing.T) {
		defer pass(time.Minute)
		pass(time.Hour)
		first, generation = life(t, 3, "", "", dir)
	})
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			defer pass(time.Minute)
			second, now := life(t, 3, "", "", dir)
			if !first.Less(second) || now <= generation {
				t.Errorf("token %v of generation %d, then %v of %d", first, generation, second, now)
			}
			first, generation = second, now
		})
	}
}

// A damaged file is an error at the start: the generations that it recorded are lost.
func TestDamagedGenerationFileIsAnErrorAtTheStart(t *testing.T) {
	for _, text := range []string{"", "x", "12", "generation 99999999999\n", "generation 7", strings.Repeat("7", 1<<16)} {
		dir := t.TempDir()
		path := filepath.Join(dir, "generation")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := peerage.Start(t.Context(), peerage.Config{DataDir: dir})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
		_ = n.Close()
	}
}
