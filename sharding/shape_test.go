package sharding

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Versions of a message.
type (
	orderOld struct {
		Item  string
		Count int
		Next  *orderOld
	}
	// orderSame differs in names and order of Go only.
	orderSame struct {
		More  *orderSame `msgpack:"Next"`
		Count int
		Thing string `msgpack:"Item"`
	}
	orderMore struct {
		Item  string
		Count int
		Next  *orderMore
		Note  string
	}
	orderRenamed struct {
		Article string
		Count   int
		Next    *orderRenamed
	}
	orderOther struct {
		Item  string
		Count string
		Next  *orderOther
	}
	// arrayOne and arrayTwo travel without the names of their fields.
	arrayOne struct {
		_msgpack struct{} `msgpack:",as_array"`
		A, B     int
	}
	arrayTwo struct {
		_msgpack struct{} `msgpack:",as_array"`
		B, A     int
	}
)

func TestShapesTellVersionsOfMessagesApart(t *testing.T) {
	_, _ = arrayOne{}._msgpack, arrayTwo{}._msgpack
	old := shapeOf[orderOld](Msgpack[orderOld]{})
	if old != "msgpack {Count:int;Item:string;Next:*#0;}" {
		t.Errorf("shape is %q", old)
	}
	for name, same := range map[string]string{
		"names of Go": shapeOf[orderSame](Msgpack[orderSame]{}), "by name": shapeOf[orderOld](Lossy[orderOld]{}),
	} {
		if same != old {
			t.Errorf("%s: %q", name, same)
		}
	}
	for name, other := range map[string]string{
		"added": shapeOf[orderMore](Msgpack[orderMore]{}), "renamed": shapeOf[orderRenamed](Msgpack[orderRenamed]{}),
		"other kind": shapeOf[orderOther](Msgpack[orderOther]{}), "JSON": shapeOf[orderOld](JSON[orderOld]{}),
		"text": shapeOf[string](Text[string]{}), "raw": shapeOf[[]byte](Raw[[]byte]{}), "none": shapeOf[struct{}](None{}),
		"kinds": shapeOf[any](Kinds[any]{1: Kind[any](Msgpack[orderOld]{})}),
	} {
		if other == old || other == "" {
			t.Errorf("%s: %q", name, other)
		}
	}
	if a, b := shapeOf[arrayOne](Msgpack[arrayOne]{}), shapeOf[arrayTwo](Msgpack[arrayTwo]{}); a == b {
		t.Errorf("fields in another order in an array: %q", a)
	}
	kinds := func(second KindCodec[any]) string {
		return shapeOf[any](Kinds[any]{1: Kind[any](Msgpack[put]{}), 2: second})
	}
	if a, b := kinds(Kind[any](Msgpack[orderOld]{})), kinds(Kind[any](Msgpack[orderMore]{})); a == b {
		t.Errorf("a field added to a kind: %q", a)
	}
	// Nothing is known of a codec of one's own.
	if a, b := shapeOf[int](noCodec[int]{}), kinds(Kind[any](noCodec[int]{})); a != "" || b != "" {
		t.Errorf("%q, %q", a, b)
	}
	if got := shapesOf[int](noCodec[int]{}, Msgpack[int]{}); got.Requests != 0 || got.Responses == 0 || got.Compare(protocol.Shapes{Requests: 1}) != "" {
		t.Errorf("%+v", got)
	}
}

// orders registers a type whose requests are of one version.
func orders[Req any](t *testing.T, n *node) {
	t.Helper()
	_, err := Register(n.reg, Type[Req, struct{}]{
		Name: "shop", Shards: 8,
		New: func(string) Entity[Req, struct{}] {
			return Func(func(*Context, Req) (none struct{}, err error) { return none, nil })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Nodes whose messages differ work together, as in a rolling update, and the coordinator
// says so: once in its log, with the type and both nodes, in a counter, and in Explain.
func TestMessagesOfAnotherShapeAreSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var log logbook
		for _, register := range []func(*testing.T, *node){orders[orderOld], orders[orderSame], orders[orderMore], orders[orderRenamed]} {
			n := c.add("n")
			n.log = log.logger()
			register(t, n)
			n.start()
		}
		c.install(c.nodes...)
		pass(5 * time.Second)
		c.install(c.nodes...)
		pass(5 * time.Second)
		synctest.Wait()
		if n := log.count("message types differ between nodes"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		id := func(i int) string { return c.nodes[i-1].self.ID.String() }
		for _, part := range []string{"level=WARN", "type=shop", "coordinator=" + id(1), "differ=requests"} {
			if log.count(part) == 0 {
				t.Errorf("%s is not in the log", part)
			}
		}
		if log.count(" node="+id(3))+log.count(" node="+id(4)) == 0 {
			t.Error("the node is not in the log")
		}
		for i, n := range c.nodes {
			if !n.s.Ready() || n.s.Status()[0].Refused != "" {
				t.Errorf("node %d is refused: %+v", i+1, n.s.Status()[0])
			}
			stats, _ := n.reg.Stats("shop")
			if want := map[int]uint64{0: 2}[i]; stats.MessageShapes != want {
				t.Errorf("node %d counts %d of another shape, want %d", i+1, stats.MessageShapes, want)
			}
		}
		found := 0
		for _, e := range c.nodes[0].explain("shop", 0) {
			if e.Kind == "messages of another shape" {
				found++
			}
		}
		if found != 2 {
			t.Errorf("Explain shows %d nodes of another shape", found)
		}
	})
}
