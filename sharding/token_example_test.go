package sharding_test

import (
	"encoding/json"
	"fmt"

	"github.com/peerage-go/peerage/sharding"
)

// A token of a later term is greater than every token of an earlier term.
func ExampleToken() {
	older, newer := sharding.Token{Term: 4, Seq: 300}, sharding.Token{Term: 5, Seq: 1}
	fmt.Println(older.Less(newer), newer.Compare(older), sharding.Token{}.IsZero())
	// Output: true 1 true
}

// Tokens are text in JSON, and come back from it.
func ExampleToken_UnmarshalText() {
	var t sharding.Token
	fmt.Println(json.Unmarshal([]byte(`"1.2/3"`), &t), t.Seq)
	fmt.Println(json.Unmarshal([]byte(`"3"`), &t))
	// Output:
	// <nil> 3
	// sharding: "3" is no token
}
