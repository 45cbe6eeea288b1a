package flow

import "testing"

// The parked requests of one type cannot use up the share of another type, and return the
// bytes that they took of the rest.
func TestAPoolKeepsTheSharesOfOtherTypes(t *testing.T) {
	rest := Budget{Most: 100}
	flooded, quiet := Pool{Share: 10, Rest: &rest}, Pool{Share: 10, Rest: &rest}
	taken := 0
	for flooded.Take(1) {
		taken++
	}
	if taken != 110 || rest.Used != 100 {
		t.Fatalf("%d taken, %d of the rest; want 110 and 100", taken, rest.Used)
	}
	if !quiet.Take(10) || quiet.Take(1) {
		t.Error("another type has not exactly its share")
	}
	flooded.Give(5)
	if !quiet.Take(5) || quiet.Take(1) {
		t.Error("another type cannot take the bytes that were returned to the rest")
	}
	flooded.Give(105)
	quiet.Give(15)
	if flooded.Used != 0 || quiet.Used != 0 || rest.Used != 0 {
		t.Errorf("%d, %d and %d of the rest are in use after all was returned", flooded.Used, quiet.Used, rest.Used)
	}
}
