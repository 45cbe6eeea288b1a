package sharding

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// early is an ear that counts its beginnings, and may fail at them.
type early struct {
	ear
	starts *atomic.Int32
}

func (e *early) OnStart(ctx *Context) error {
	if ctx.ID() == "bad" {
		return errors.New("not today")
	}
	e.starts.Add(1)
	return nil
}

// Started from anywhere, an entity lives once, has handled nothing, and says so.
func TestStartEntityIsAcknowledgedFromEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		var starts atomic.Int32
		_, _, regions := three(t, j, func(ty *Type[say, heard]) {
			ty.New = func(id string) Entity[say, heard] { return &early{ear{id: id, j: j}, &starts} }
			ty.Control = func(s say) bool { return s.N > 0 }
		})
		for i := range 20 {
			for range 2 {
				for _, r := range regions {
					if err := r.Start(within(t, 5*time.Second), fmt.Sprint("e", i)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		live := 0
		handled := uint64(0)
		for _, r := range regions {
			live += r.Stats().Entities
			handled += r.Stats().Handled
		}
		if n := starts.Load(); n != 20 || live != 20 || handled != 0 {
			t.Errorf("%d starts, %d live, %d handled, want 20, 20, 0", n, live, handled)
		}
		for _, r := range regions {
			var said *HandlerError
			if err := r.Start(within(t, 5*time.Second), "bad"); !errors.As(err, &said) || said.Text != "not today" {
				t.Errorf("a start that fails: %v", err)
			}
			if err := r.Start(within(t, time.Second), ""); !errors.Is(err, ErrBadID) {
				t.Errorf("start of nobody: %v", err)
			}
		}
		got, err := regions[0].Ask(within(t, 5*time.Second), "e0", say{"x", 1})
		if err != nil || got.Count != 1 || starts.Load() != 20 {
			t.Errorf("%+v, %v, %d starts", got, err, starts.Load())
		}
	})
}
