package sharding

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// msgpack v5 allocates what a header declares: five bytes can ask for gigabytes.
func TestMsgpackIsBoundedByItsBytes(t *testing.T) {
	type list struct{ Items []uint64 }
	for name, p := range map[string][]byte{
		"array of 4 billion": {0xdd, 0xff, 0xff, 0xff, 0xff},
		"map of 4 billion":   {0xdf, 0xff, 0xff, 0xff, 0xff},
		"string of 4 GiB":    {0xdb, 0xff, 0xff, 0xff, 0xff},
		"bytes of 4 GiB":     {0xc6, 0xff, 0xff, 0xff, 0xff},
		"trailing bytes":     {0x90, 0x90},
		"nothing":            {},
		"array inside a map": {0x81, 0xa5, 'I', 't', 'e', 'm', 's', 0xdd, 0x7f, 0xff, 0xff, 0xff},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := (Msgpack[list]{}).Decode(p); err == nil {
			t.Errorf("%s: no error", name)
		}
		runtime.ReadMemStats(&after)
		if grew := after.TotalAlloc - before.TotalAlloc; grew > 1<<20 {
			t.Errorf("%s: %d bytes allocated for %d bytes", name, grew, len(p))
		}
	}
}

func FuzzMsgpack(f *testing.F) {
	f.Add([]byte{0x81, 0xa1, 'A', 0x01})
	f.Fuzz(func(t *testing.T, p []byte) {
		_, _ = (Msgpack[map[string][]string]{}).Decode(p)
		_, _ = (Msgpack[any]{}).Decode(p)
	})
}

// command is one of several kinds of messages.
type command interface{ apply(balance int) int }

type put struct{ Cents int }

func (p put) apply(balance int) int { return balance + p.Cents }

type empty struct{}

func (empty) apply(int) int { return 0 }

// unnumbered is a kind that Kinds was not told of.
type unnumbered struct{ empty }

// noCodec writes nothing.
type noCodec[T any] struct{}

func (noCodec[T]) Append(b []byte, _ T) ([]byte, error) { return b, nil }

func (noCodec[T]) Decode([]byte) (v T, err error) { return v, nil }

func commands() Kinds[command] {
	return Kinds[command]{1: Kind[command](Msgpack[put]{}), 7: Kind[command](noCodec[empty]{})}
}

func TestKindsSurviveTheTrip(t *testing.T) {
	k := commands()
	for _, v := range []command{put{5}, empty{}} {
		p, err := k.Append([]byte("head"), v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Decode(bytes.TrimPrefix(p, []byte("head")))
		if got != v || err != nil {
			t.Errorf("%#v came back as %#v, %v", v, got, err)
		}
	}
	for _, v := range []command{nil, &put{5}, unnumbered{}} {
		if _, err := k.Append(nil, v); !errors.Is(err, errKind) {
			t.Errorf("%#v: %v", v, err)
		}
	}
	for _, p := range [][]byte{nil, {2}, {1}, {1, 0xdd, 0xff, 0xff, 0xff, 0xff}} {
		if v, err := k.Decode(p); err == nil {
			t.Errorf("%x is %#v", p, v)
		}
	}
}

func TestKindsThatAreWrongAreRefused(t *testing.T) {
	for want, k := range map[string]Kinds[command]{
		"there are no kinds":  {},
		"kind 3 is nil":       {3: nil},
		"kinds 1 and 2 are":   {1: Kind[command](Msgpack[put]{}), 2: Kind[command](JSON[put]{})},
		"string is an inter":  {1: Kind[command](Text[string]{})},
		"command is an inter": {1: Kind[command](JSON[command]{})},
	} {
		_, err := Register(new(Registry), Type[command, int]{
			Name: "x", ReqCodec: k, New: func(string) Entity[command, int] { return nil },
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// selfish reads and writes itself, though it is a function.
type selfish func()

func (s *selfish) UnmarshalJSON([]byte) error  { return nil }
func (s selfish) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// ownWay has a reflecting codec inside, and methods of its own.
type ownWay struct{ Msgpack[command] }

func (ownWay) Append(b []byte, _ command) ([]byte, error) { return b, nil }
func (ownWay) Decode([]byte) (command, error)             { return nil, nil }

// What reflection cannot read would work as long as a message and its entity are on one
// node, and fail in the first real cluster.
func TestTypesThatCannotTravelAreRefused(t *testing.T) {
	add := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for name, x := range map[string]struct{ got, want string }{
		"interface, default": {add((&Type[command, int]{Name: "x"}).Validate()), "ReqCodec: sharding.command is an interface"},
		"interface, JSON":    {add((&Type[int, command]{Name: "x", RespCodec: JSON[command]{}}).Validate()), "RespCodec: sharding.command is an interface"},
		"function, channel":  {add((&Type[func(), chan int]{Name: "x"}).Validate()), "ReqCodec: func() cannot travel; RespCodec: chan int cannot travel"},
	} {
		if !strings.Contains(x.got, x.want) {
			t.Errorf("%s: %q, want %q", name, x.got, x.want)
		}
	}
	for name, err := range map[string]error{
		"methods":       (&Type[selfish, int]{Name: "x", ReqCodec: JSON[selfish]{}}).Validate(),
		"its own codec": (&Type[command, int]{Name: "x", ReqCodec: ownWay{}}).Validate(),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzKinds(f *testing.F) {
	f.Add([]byte{1, 0x81, 0xa5, 'C', 'e', 'n', 't', 's', 5})
	k := commands()
	f.Fuzz(func(t *testing.T, p []byte) {
		v, err := k.Decode(p)
		if err != nil {
			return
		}
		again, err := k.Append(nil, v)
		if err != nil {
			t.Fatalf("%#v does not go back: %v", v, err)
		}
		if got, err := k.Decode(again); got != v || err != nil {
			t.Fatalf("%#v came back as %#v, %v", v, got, err)
		}
	})
}
