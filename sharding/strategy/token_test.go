package strategy_test

import (
	"fmt"

	"github.com/peerage-go/peerage/sharding/strategy"
)

// A token of a later term is greater than every token of an earlier term.
func ExampleToken() {
	older, newer := strategy.Token{Term: 4, Seq: 300}, strategy.Token{Term: 5, Seq: 1}
	fmt.Println(older.Less(newer), older.Max(newer) == newer, strategy.Token{}.IsZero())
	// Output: true true true
}
