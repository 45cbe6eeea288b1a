package delivery

import (
	"testing"

	"github.com/peerage-go/peerage/internal/activation"
)

// Of more than cancelsMax cancelled asks the oldest are forgotten.
func TestCancelsAreBoundedAndForgetTheOldest(t *testing.T) {
	var c CancelledAsks
	for i := range cancelsMax + 10 {
		c.Add(activation.ReplyTo{Node: 1, Call: uint64(i)})
	}
	if len(c.asks) != cancelsMax || c.Take(activation.ReplyTo{Node: 1, Call: 9}) || !c.Take(activation.ReplyTo{Node: 1, Call: 10}) {
		t.Errorf("%d kept", len(c.asks))
	}
	if c.Take(activation.ReplyTo{Node: 1, Call: 10}) || c.Take(activation.ReplyTo{Node: 2, Call: 11}) {
		t.Error("taken twice, or for another node")
	}
}
