package canonical

import (
	"reflect"
	"strings"
	"testing"
)

type (
	plain  struct{ A, B int }
	hidden struct{ a int }
	sliced struct{ In [2]plain2 }
	plain2 struct{ S []string }
	chain  struct{ Next []chain }
)

var _ = hidden{}.a

func TestTypesWithoutACanonicalEncodingAreRefused(t *testing.T) {
	for _, ok := range []any{0, "", [3]int{}, []string{}, plain{}, sliced{}, 1.5} {
		if err := CheckType(reflect.TypeOf(ok), 0); err != nil {
			t.Errorf("%T is refused: %v", ok, err)
		}
	}
	for want, bad := range map[string]any{
		"no canonical encoding": map[string]int{},
		"*int has no canonical": new(int),
		"unexported field a":    hidden{},
		"func() has no":         []func(){},
		"nests deeper than 32":  chain{},
	} {
		if err := CheckType(reflect.TypeOf(bad), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", bad, err, want)
		}
	}
}

func TestSlicesAndFloatsAreFoundInside(t *testing.T) {
	for _, c := range []struct {
		v            any
		slice, float bool
	}{
		{0, false, false}, {plain{}, false, false}, {sliced{}, true, false}, {[2]float64{}, false, true},
		{struct{ P struct{ F complex64 } }{}, false, true}, {[]float32{}, true, false},
	} {
		typ := reflect.TypeOf(c.v)
		if HoldsSlice(typ) != c.slice || HoldsFloat(typ, 0) != c.float {
			t.Errorf("%v: holds a slice %v, a float %v", typ, HoldsSlice(typ), HoldsFloat(typ, 0))
		}
	}
	deep := reflect.TypeOf(0.5)
	for range DepthMax + 2 {
		deep = reflect.ArrayOf(1, deep)
	}
	if HoldsFloat(deep, 0) {
		t.Errorf("HoldsFloat follows a type deeper than %d, which CheckType refuses", DepthMax)
	}
}
