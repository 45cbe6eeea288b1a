package typeshape

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

type order struct {
	Item  string
	Count int
	At    time.Time
	Tags  map[string][]byte
	Next  *order
	base
}

type base struct{ Note string }

func TestShapesNameFieldsAndKinds(t *testing.T) {
	const fields = "At:time;Count:int;Item:string;Next:*#0;Note:string;Tags:map[string][]uint8;"
	for _, c := range []*Codec{Msgpack(), JSON()} {
		if got, want := c.Describe(reflect.TypeFor[order]()), c.tag+" {"+fields+"}"; got != want {
			t.Errorf("shape %q, want %q", got, want)
		}
	}
}

func TestLostFieldsAreNamed(t *testing.T) {
	type hidden struct {
		A int
		b int
	}
	_ = hidden{}.b
	for _, c := range []struct {
		codec *Codec
		typ   reflect.Type
		want  string
	}{
		{Msgpack(), reflect.TypeFor[order](), ""},
		{JSON(), reflect.TypeFor[order](), ""},
		{Msgpack(), reflect.TypeFor[hidden](), "hidden.b is not exported"},
		{JSON(), reflect.TypeFor[[]any](), "is an interface"},
		{JSON(), reflect.TypeFor[map[base]int](), "cannot be a key of a JSON object"},
		{Msgpack(), reflect.TypeFor[chan int](), "cannot travel"},
	} {
		err := c.codec.CheckLossless(c.typ)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %v: %v, want %q", c.codec.tag, c.typ, err, c.want)
		}
	}
}
