package peeragetest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeTest is a test that may fail without failing the test that looks at it.
type fakeTest struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failed   bool
	fatal    bool
	text     strings.Builder
	cleanups []func()
}

// runFake runs test to its end, with its cleanups, and returns what became of it.
func runFake(t *testing.T, test func(t testing.TB)) *fakeTest {
	f := &fakeTest{TB: t}
	var cancel context.CancelFunc
	f.ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	cancel()
	for _, clean := range slices.Backward(f.cleanups) {
		clean()
	}
	return f
}

func (f *fakeTest) Helper()                  {}
func (f *fakeTest) Context() context.Context { return f.ctx }
func (f *fakeTest) Cleanup(fn func())        { f.cleanups = append(f.cleanups, fn) }

func (f *fakeTest) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *fakeTest) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(&f.text, format+"\n", args...)
}

func (f *fakeTest) Errorf(format string, args ...any) {
	f.Logf(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
}

func (f *fakeTest) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	f.mu.Lock()
	f.fatal = true
	f.mu.Unlock()
	runtime.Goexit()
}

// expect fails t unless the fake test has failed, by Fatalf if fatal, and its text contains
// each of words.
func (f *fakeTest) expect(t *testing.T, fatal bool, words ...string) {
	t.Helper()
	if !f.failed || f.fatal != fatal {
		t.Errorf("failed: %t, immediately: %t; want true, %t", f.failed, f.fatal, fatal)
	}
	for _, w := range words {
		if !strings.Contains(f.text.String(), w) {
			t.Errorf("the failure does not contain %q:\n%s", w, &f.text)
		}
	}
}
