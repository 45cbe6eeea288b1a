package sharding_test

import (
	"fmt"

	"github.com/peerage-go/peerage/sharding"
)

// A token of a later term is greater than every token of an earlier term.
func ExampleToken() {
	older, newer := sharding.Token{Term: 4, Seq: 300}, sharding.Token{Term: 5, Seq: 1}
	fmt.Println(older.Less(newer), newer.Compare(older), sharding.Token{}.IsZero())
	// Output: true 1 true
}
