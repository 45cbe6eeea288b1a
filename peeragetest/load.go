package peeragetest

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// callEvery is the pause of a caller between two calls. Without it, calls that take no
// virtual time would never let a timer run.
const callEvery = time.Millisecond

// callers is how many goroutines of KeepCalling call side by side.
const callers = 4

// KeepCalling makes calls in the background, as clients do, from all running nodes in turn
// and four at a time, until the returned function is called or the test ends. call sends
// one request by n.Service; i is different in each call. It should honour ctx, which ends
// after a minute, and return an error if there was no answer.
//
// The returned function ends the calls, waits for those that are in flight, and returns how
// many were answered. The test fails, and goes on, if a call returned an error, or if none
// was answered: the failure names the node, the number and the error of the first. Calls by
// a node that meanwhile crashed or stopped do not count, for their client is gone with it.
func (c *Cluster[S]) KeepCalling(call func(ctx context.Context, n *Node[S], i int) error) (allAnswered func() int) {
	l := &load[S]{c: c, call: call, stop: make(chan struct{})}
	for range callers {
		c.callers.Go(func() { l.repeatCalls() })
		l.running.Add(1)
	}
	end := sync.OnceFunc(func() { close(l.stop) })
	return func() int {
		c.t.Helper()
		end()
		l.running.Wait()
		return l.reportFailures()
	}
}

// load is the calls of one KeepCalling.
type load[S any] struct {
	c       *Cluster[S]
	call    func(context.Context, *Node[S], int) error
	stop    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	next     int
	answered int
	failed   []string
}

// repeatCalls makes calls until the load or the test ends.
func (l *load[S]) repeatCalls() {
	defer l.running.Done()
	for {
		l.callOnce()
		select {
		case <-l.stop:
			return
		case <-l.c.ending:
			return
		case <-time.After(callEvery):
		}
	}
}

func (l *load[S]) callOnce() {
	l.mu.Lock()
	i := l.next
	l.next++
	l.mu.Unlock()
	nodes := l.c.Nodes()
	if len(nodes) == 0 {
		return
	}
	n := nodes[i%len(nodes)]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := l.call(ctx, n, i)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.answered++
	case n.runs():
		l.failed = append(l.failed, fmt.Sprintf("call %d, by node %s: %v", i, n.Name, err))
	}
}

// reportFailures fails the test if a call was not answered.
func (l *load[S]) reportFailures() int {
	l.c.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.failed) > 0:
		l.c.t.Errorf("peeragetest: %d calls were not answered, %d were; first, %s", len(l.failed), l.answered, l.failed[0])
	case l.answered == 0:
		l.c.t.Errorf("peeragetest: no call was answered, and none failed: no node runs, or there was no time")
	}
	return l.answered
}
