package route

import (
	"testing"

	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// A message whose home is here, and one whose home is another node that has granted room,
// pass the route without an allocation.
func TestFastPathsAllocateNothing(t *testing.T) {
	for name, local := range map[string]bool{"local": true, "remote": false} {
		t.Run(name, func(t *testing.T) {
			var r Route[note]
			token := protocol.Token{Term: 1, Seq: 1}
			r.Open(2, token, local)
			for a, ok := r.Next(); ok; a, ok = r.Next() {
				r.Done(&a, Sent)
			}
			r.Grant(2, token, flow.Grant{Limit: 1 << 40, LimitBytes: 1 << 40})
			want := Send
			if local {
				want = Publish
			}
			allocs := testing.AllocsPerRun(1000, func() {
				it := Item[note]{ID: "a", Bytes: 100}
				a := r.Offer(&it)
				if r.Done(&a, Sent); a.Kind != want || r.Due() {
					t.Fatalf("action %d, due %v", a.Kind, r.Due())
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}
