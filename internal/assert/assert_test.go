package assert

import (
	"errors"
	"testing"
)

func TestBrokenPanicsWithTheValues(t *testing.T) {
	defer func() {
		var v Violation
		if err, ok := recover().(error); !ok || !errors.As(err, &v) || v.ID != "S7" || v.Error() != "assert: S7 is broken: token 3 after 4" {
			t.Errorf("panics with %v", v)
		}
	}()
	Broken("S7", "token %d after %d", 3, 4)
}
