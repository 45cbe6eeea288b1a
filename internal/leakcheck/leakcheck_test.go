package leakcheck

import (
	"errors"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

var errLeft = errors.New("left")

// TestAwaitReturnsWhenTheLastGoroutineEnds: a goroutine that ends while await looks is no leak.
func TestAwaitReturnsWhenTheLastGoroutineEnds(t *testing.T) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); <-end }()
	finds := 0
	err := await(func() error {
		finds++
		if finds == 3 {
			close(end)
			<-ended
		}
		if finds < 3 {
			return errLeft
		}
		return nil
	}, time.Now().Add(time.Hour))
	if err != nil || finds != 3 {
		t.Errorf("%v after %d looks, want none after 3", err, finds)
	}
}

// TestAwaitReportsALeak: a goroutine that never ends is reported after the deadline.
func TestAwaitReportsALeak(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	go func() { <-end }()
	if err := await(func() error { return goleak.Find() }, time.Now()); err == nil {
		t.Error("a goroutine is left, and await returns nil")
	}
}
