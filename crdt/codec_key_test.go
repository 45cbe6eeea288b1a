package crdt

import (
	"math"
	"strings"
	"testing"
)

// Before floats were refused, Add(-0) over a +0 made replicas differ for ever, and a NaN
// could be added without end and never removed.
func TestFloatsAreNoElementsOrKeys(t *testing.T) {
	type place struct {
		Name string
		At   [2]float64
	}
	for name, use := range map[string]func(){
		"ORSet":                  func() { (&ORSet[float64]{}).Add(na, math.NaN()) },
		"ORSet of structs":       func() { (&ORSet[place]{}).Add(na, place{}) },
		"ORSet with a codec":     func() { NewORSet[float32](nil) },
		"GSet":                   func() { (&GSet[float32]{}).Add(0) },
		"MVRegister":             func() { (&MVRegister[float64]{}).Set(na, 1) },
		"keys of LWWMap":         func() { (&LWWMap[float64, string]{}).Set(1, "", Stamp{Time: 1}) },
		"keys of ORMultiMap":     func() { (&ORMultiMap[float64, string]{}).Add(na, 1, "") },
		"values of ORMultiMap":   func() { (&ORMultiMap[string, complex128]{}).Add(na, "", 1) },
		"keys of PNCounterMap":   func() { (&PNCounterMap[float64]{}).Add(na, 1, 1) },
		"values in an ORMap":     func() { (&ORMap[string, float64]{}).At("k").Add(na, 1) },
		"decoding with a codec":  func() { _ = (&ORSet[float64]{}).Decode([]byte{0x95}) },
		"decoding into zero map": func() { _ = (&LWWMap[float64, int]{}).Decode([]byte{0x95}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, "floating-point") {
					t.Errorf("not refused: %v", p)
				}
			}()
			use()
		})
	}
}

func TestFloatsMayBeValuesOfLWWTypes(t *testing.T) {
	var m LWWMap[string, float64]
	m.Set("k", math.NaN(), Stamp{Time: 1})
	var r LWWRegister[float64]
	r.Set(-0.5, Stamp{Time: 1})
	if v, ok := m.Get("k"); !ok || !math.IsNaN(v) {
		t.Errorf("map holds %v", v)
	}
	if v, ok := r.Value(); !ok || v != -0.5 {
		t.Errorf("register holds %v", v)
	}
}
