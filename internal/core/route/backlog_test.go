package route

import (
	"testing"
	"unsafe"
)

// A route at rest is small, since a node has one for each shard that it uses: after messages
// have waited for a home, for a grant, and for refusals, it has no backlog.
func TestRoutesAtRestHaveNoBacklog(t *testing.T) {
	if size := unsafe.Sizeof(Route[note]{}); size > 88 {
		t.Errorf("a route has %d bytes", size)
	}
	r := &Route[note]{}
	if r.Keep(message(1)); r.backlog == nil {
		t.Fatal("a message in the buffer is in no backlog")
	}
	r.Open(2, tokenOf(1), false)
	if actions(r, Sent); r.backlog != nil {
		t.Errorf("the message has left, and its backlog stays: %+v", *r.backlog)
	}
	r.Refused(2, 1, *message(1))
	if actions(r, Sent); r.backlog == nil || !r.backlog.isSettling() {
		t.Fatal("a refused message waits in no backlog")
	}
	r.MarkerAcked(2, r.backlog.settle.number)
	r.Open(3, tokenOf(2), false)
	if actions(r, Sent); r.backlog != nil {
		t.Errorf("the message has left for its next home, and its backlog stays: %+v", *r.backlog)
	}
	sendAll(r, 1)
	if r.backlog != nil {
		t.Error("a message that left immediately made a backlog")
	}
}
