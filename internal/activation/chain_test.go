package activation

import (
	"fmt"
	"strings"
	"testing"
)

// TestChains checks which entities wait for the answer of an ask, that a chain survives its
// encoding, and that of a long chain the newest entities are kept.
func TestChains(t *testing.T) {
	var none *Chain
	if none.Len() != 0 || none.Asker() != 0 || none.Waits("t", "a") || ParseChain(nil) != nil || ParseChain(make([]byte, 7)) != nil {
		t.Error("no chain has an entity")
	}
	c := &Context{shard: &shardInfo{hostInfo: &hostInfo{typ: "t", parent: t.Context()}}, id: "0"}
	for i := range ChainMax + 3 {
		chain := ChainOf(c)
		first := max(0, i+1-ChainMax)
		for j := range i + 2 {
			if want := j >= first && j <= i; chain.Waits("t", fmt.Sprint(j)) != want || chain.Waits("u", fmt.Sprint(j)) {
				t.Errorf("after %d asks, entity %d waits: %v", i+1, j, !want)
			}
		}
		if chain.Asker() != EntityHash("t", fmt.Sprint(i)) || chain.Len() != min(i+1, ChainMax) || ChainOf(c) != chain {
			t.Errorf("after %d asks: %d entities, asker %x", i+1, chain.Len(), chain.Asker())
		}
		b := append(chain.Append(nil), 1, 2, 3)
		if again := ParseChain(append(b[:8*chain.Len():8*chain.Len()], b...)); i == 0 && (again.Len() != 2 || again.Asker() != chain.Asker()) {
			t.Errorf("decoded: %d entities", again.Len())
		}
		if again := ParseChain(b); again.Len() != chain.Len() || again.Asker() != chain.Asker() {
			t.Errorf("decoded: %d entities, asker %x", again.Len(), again.Asker())
		}
		c = &Context{shard: c.shard, id: fmt.Sprint(i + 1), chain: chain}
	}
	if long := ParseChain(make([]byte, 8*(ChainMax+1))); long.Len() != ChainMax {
		t.Errorf("%d entities were decoded, want %d", long.Len(), ChainMax)
	}
	c.ended.Store(true)
	if ChainOf(nil) != nil || ChainOf(c) != nil {
		t.Error("a call that has returned asks")
	}
}

// TestHeadersOfAContext checks that the messages sent with a context carry its headers and those of
// the contexts around it, and that handlers are found through it.
func TestHeadersOfAContext(t *testing.T) {
	handler := &Context{shard: &shardInfo{hostInfo: &hostInfo{typ: "t", parent: t.Context()}}, id: "a"}
	outer := WithHeaders(handler, map[string]string{"a": "1"})
	inner := WithHeaders(outer, map[string]string{"b": "2"})
	found, list, err := From(inner)
	a, _ := list.Get("a")
	b, _ := list.Get("b")
	if found != handler || err != nil || a != "1" || b != "2" {
		t.Errorf("headers %v of %v: %v", list.Map(), found, err)
	}
	if _, list, _ := From(outer); len(list.Map()) != 1 {
		t.Errorf("headers %v", list.Map())
	}
	if found, list, err := From(t.Context()); found != nil || list != "" || err != nil {
		t.Errorf("outside of handlers: %v, %v, %v", found, list, err)
	}
	bad := WithHeaders(inner, map[string]string{"k": strings.Repeat("x", 1<<20)})
	if _, _, err := From(bad); err == nil {
		t.Error("headers beyond all bounds are accepted")
	}
	if _, _, err := From(WithHeaders(bad, map[string]string{"c": "3"})); err == nil {
		t.Error("an error of headers is lost")
	}
	if got := inner.Value(labelType); got != nil {
		t.Errorf("value %v", got)
	}
}

// TestAFinderTakesTheFramesOfItsMarks checks that only lines of frames, of wanted paragraphs, are
// taken out of a profile.
func TestAFinderTakesTheFramesOfItsMarks(t *testing.T) {
	profile := `1 @ 0x1 0x2
# labels: {"peerage_worker":"w1"}
#	0x1	main.f+0x1	/src/main.go:7
1 @ 0x3 0x4 0x5 0x6

1 @ 0x7
# labels: {"peerage_worker":"w2"}
#	0x7	main.g+0x1	/src/main.go:8

1 @ 0x9
#	0x9	main.h+0x1	/src/main.go:9
`
	f := finder{wanted: map[string]bool{"w1": true, "w2": true}, found: map[string]string{}}
	for _, half := range []string{profile[:30], profile[30:]} {
		if n, err := f.Write([]byte(half)); n != len(half) || err != nil {
			t.Fatal(n, err)
		}
	}
	f.endParagraph()
	first, second := "main.f+0x1\n\t/src/main.go:7\n", "main.g+0x1\n\t/src/main.go:8\n"
	if len(f.found) != 2 || f.found["w1"] != first || f.found["w2"] != second {
		t.Errorf("found %q, want %q and %q", f.found, first, second)
	}
}
