package sharding

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// Types that lose data on the way to another node, each with the field that an error must name.
type (
	lostField   struct{ A, b int }
	lostDeep    struct{ Items []map[string]*lostField }
	lostAny     struct{ Args map[string]any }
	lostError   struct{ Err error }
	lostChan    struct{ Done chan struct{} }
	lostFunc    struct{ Then func() }
	lostComplex struct{ Z complex128 }
	lostEmbed   struct{ *lostInner }
	lostInner   struct{ A int }
	lostTwice   struct {
		A int `msgpack:"x"`
		B int `msgpack:"x"`
	}
	lostShadow struct {
		Inner
		ID string
	}
	Inner    struct{ ID string }
	lostTime struct {
		time.Time
		Name string
	}
	lostLock struct {
		A  int
		mu *sync.Mutex
	}
	lostHalf struct{ Color halfText }
	// halfText writes itself, and reads nothing.
	halfText int
)

func (halfText) MarshalText() ([]byte, error) { return []byte("red"), nil }

// Types that arrive whole.
type (
	whole struct {
		//lint:ignore U1000 a lock that only has to be there
		mu   sync.Mutex
		_    struct{}
		none struct{}
		A    int
		At   time.Time
		For  time.Duration
		Addr netip.Addr
		Big  big.Int
		More []*whole
		By   map[string]whole2
		wholeInner
		Left   func() `msgpack:"-" json:"-"`
		cache  any    `msgpack:"-"`
		cache2 int    `json:"-"`
	}
	whole2     struct{ Next *whole }
	wholeInner struct{ C int }
	wholeKey   struct {
		By map[netip.Addr]int
	}
	// wholeAlone has the methods of what it embeds, and nothing else.
	wholeAlone struct{ time.Time }
	// wholeArray has its fields in an array.
	wholeArray struct {
		_msgpack struct{} `msgpack:",as_array"`
		A, B     int
	}
	// wholeSelf encodes itself.
	wholeSelf struct{ a int }
)

func (w wholeSelf) MarshalBinary() ([]byte, error)  { return []byte{byte(w.a)}, nil }
func (w *wholeSelf) UnmarshalBinary(b []byte) error { w.a = int(b[0]); return nil }
func (w *wholeSelf) MarshalJSON() ([]byte, error)   { return json.Marshal(w.a) }
func (w *wholeSelf) UnmarshalJSON(b []byte) error   { return json.Unmarshal(b, &w.a) }
func use(w *whole, l *lostField, m *lostLock) []any {
	return []any{w.none, w.cache, w.cache2, l.b, m.mu}
}
func useMore(a *wholeArray) any        { return a._msgpack }
func refusal[T any](c Codec[T]) string { return validation(Type[T, int]{Name: "x", ReqCodec: c}) }
func validation[Req, Resp any](t Type[Req, Resp]) string {
	if err := t.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

// A message between two entities of one node skips the codec: a field that the codec loses
// would arrive there, and be empty from every other node.
func TestTypesThatLoseDataAreRefused(t *testing.T) {
	_, _ = use(&whole{}, &lostField{}, &lostLock{}), useMore(&wholeArray{})
	for want, got := range map[string]string{
		"ReqCodec: sharding.lostField.b is not exported":                            refusal[lostField](nil),
		"ReqCodec: sharding.lostDeep.Items[][].b is not exported":                   refusal[lostDeep](nil),
		"lostField.b is not exported, so it arrives empty: export it, tag it `json": refusal[lostField](JSON[lostField]{}),
		"sharding.lostAny.Args[] is an interface (interface {})":                    refusal[lostAny](nil),
		"*sharding.lostAny.Args[] is an interface":                                  refusal[*lostAny](nil),
		"[]interface {}[] is an interface":                                          refusal[[]any](nil),
		"ReqCodec: interface {} is an interface":                                    refusal[any](nil),
		"sharding.lostError.Err is an interface (error)":                            refusal[lostError](nil),
		"sharding.lostChan.Done cannot travel, it is a chan struct {}":              refusal[lostChan](nil),
		"sharding.lostFunc.Then cannot travel":                                      refusal[lostFunc](JSON[lostFunc]{}),
		"sharding.lostComplex.Z cannot travel":                                      refusal[lostComplex](nil),
		"sharding.lostEmbed.lostInner is not exported":                              refusal[lostEmbed](nil),
		"sharding.lostTwice.A and sharding.lostTwice.B have the same":               refusal[lostTwice](nil),
		"sharding.lostShadow.Inner.ID and sharding.lostShadow.ID have":              refusal[lostShadow](nil),
		"lostShadow.Inner.ID and sharding.lostShadow.ID have the same ":             refusal[lostShadow](JSON[lostShadow]{}),
		"sharding.lostTime (sharding.lostTime) has MarshalBinary of an":             refusal[lostTime](nil),
		"(sharding.lostTime) has MarshalJSON of an embedded field":                  refusal[lostTime](JSON[lostTime]{}),
		"sharding.lostLock.mu is not exported":                                      refusal[lostLock](nil),
		"sharding.lostHalf.Color (sharding.halfText) has methods for one":           refusal[lostHalf](nil),
		"[] (sharding.wholeSelf) has methods of its pointer, which can":             refusal[map[string]wholeSelf](JSON[map[string]wholeSelf]{}),
		"[key] cannot be a key of a JSON object, it is a sharding.whole2":           refusal[map[whole2]int](JSON[map[whole2]int]{}),
		"RespCodec: sharding.lostField.b is not exported":                           validation(Type[int, lostField]{Name: "x"}),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for name, got := range map[string]string{
		"whole": refusal[whole](nil), "pointer": refusal[*whole](nil), "JSON": refusal[*whole](JSON[*whole]{}),
		"key": refusal[wholeKey](nil), "JSON key": refusal[wholeKey](JSON[wholeKey]{}),
		"alone": refusal[wholeAlone](nil), "array": refusal[wholeArray](nil),
		"self": refusal[wholeSelf](nil), "JSON self": refusal[[]wholeSelf](JSON[[]wholeSelf]{}),
		"JSON raw": refusal[struct{ A json.RawMessage }](JSON[struct{ A json.RawMessage }]{}),
		"map":      refusal[map[int]float32](nil), "text": refusal[string](nil), "bytes": refusal[[]byte](nil),
		"array of bytes": refusal[[16]byte](nil), "none": refusal[struct{}](nil),
		"its own codec": refusal[lostField](noCodec[lostField]{}),
		"by name":       refusal[lostField](Lossy[lostField]{}),
		"any by name":   refusal[any](Lossy[any]{JSON[any]{}}),
	} {
		if got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestKindsThatLoseDataAreRefused(t *testing.T) {
	k := Kinds[any]{1: Kind[any](Msgpack[put]{}), 2: Kind[any](JSON[lostField]{})}
	if got, want := refusal[any](k), "kind 2: sharding.lostField.b is not exported"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	k[2] = Kind[any](Lossy[lostField]{})
	if got := refusal[any](k); got != "" {
		t.Error(got)
	}
	if got, want := refusal[any](Kinds[any]{1: Kind[any, put](nil)}), "kind 1: its codec is nil"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is not refused arrives as it was sent, methods of fields' pointers included.
func TestWholeTypesSurviveTheTrip(t *testing.T) {
	type message struct {
		Self wholeSelf
		Big  big.Int
		List []wholeSelf
	}
	sent := message{wholeSelf{7}, *big.NewInt(1 << 40), []wholeSelf{{8}, {9}}}
	for name, c := range map[string]Codec[message]{"msgpack": Msgpack[message]{}, "JSON": JSON[message]{}, "lossy": Lossy[message]{}} {
		if got := refusal[message](c); got != "" {
			t.Errorf("%s: %s", name, got)
		}
		p, err := c.Append(nil, sent)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := c.Decode(p)
		if err != nil || got.Self != sent.Self || got.Big.Cmp(&sent.Big) != 0 || len(got.List) != 2 || got.List[1].a != 9 {
			t.Errorf("%s: %+v arrives as %+v, %v", name, sent, got, err)
		}
	}
}
