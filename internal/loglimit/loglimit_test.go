package loglimit

import (
	"fmt"
	"testing"
	"time"
)

func TestLinesOfOneKindAreFolded(t *testing.T) {
	var f Folder
	now := time.Unix(1000, 0)
	for i, want := range []bool{true, false, false} {
		if _, ok := f.Take("a", now.Add(time.Duration(i)*time.Second)); ok != want {
			t.Errorf("line %d passes: %v", i, ok)
		}
	}
	if _, ok := f.Take("b", now); !ok {
		t.Error("another kind is folded")
	}
	if folded, ok := f.Take("a", now.Add(FoldPeriod)); !ok || folded != 2 {
		t.Errorf("after the period: %d folded, %v", folded, ok)
	}
	passed := 0
	for i := range 10 * foldKinds {
		if _, ok := f.Take(fmt.Sprint("kind", i), now); ok {
			passed++
		}
	}
	if passed > foldKinds {
		t.Errorf("%d lines of ever new kinds pass", passed)
	}
	if _, ok := f.Take("a new kind, later", now.Add(FoldPeriod)); !ok {
		t.Error("kinds of an earlier period leave no room for a new one")
	}
	if folded, ok := f.Take("one more", now.Add(FoldPeriod)); !ok || folded != 0 {
		t.Errorf("one more kind: %d folded, %v", folded, ok)
	}
}
