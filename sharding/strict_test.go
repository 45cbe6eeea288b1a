package sharding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// parcel loses a field in its codec, and has memory that its sender may change.
type parcel struct {
	Items  []int
	hidden int
}

// parcels starts two strict nodes with entities that keep what they get and return what they
// keep, and returns an id of the first, with its region and the other's.
func parcels(t *testing.T) (id string, local, remote *Region[parcel, parcel]) {
	c := newCluster(t)
	c.strict = true
	return pair(t, c, Type[parcel, parcel]{
		Name: "depot", Shards: 8, ReqCodec: Lossy[parcel]{}, RespCodec: Lossy[parcel]{},
		Limits: Limits{PayloadBytes: 100},
		New: func(string) Entity[parcel, parcel] {
			var kept parcel
			return Func(func(_ *Context, p parcel) (parcel, error) {
				for i := range kept.Items {
					kept.Items[i]++ // a caller that shares memory with the entity sees it
				}
				kept.Items = append(kept.Items, p.Items...)
				kept.hidden += p.hidden + 1
				return parcel{Items: kept.Items, hidden: kept.hidden}, nil
			})
		},
	})
}

// On a strict node what arrives does not depend on the route: a message to an entity of the
// same node is what it would be from another, and so is the answer.
func TestStrictMessagesArriveAsFromAnotherNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, from := range []string{"local", "remote"} {
			id, region, remote := parcels(t)
			if from == "remote" {
				region = remote
			}
			var got []string
			first := parcel{[]int{1, 2}, 7}
			answer, err := region.Ask(within(t, time.Minute), id, first)
			first.Items[0] = 100 // the entity must not see it
			got = append(got, fmt.Sprint(answer, err))
			again, err := region.Ask(within(t, time.Minute), id, parcel{[]int{3}, 7})
			got = append(got, fmt.Sprint(again, err), fmt.Sprint(answer))
			want := []string{"{[1 2] 0} <nil>", "{[2 3 3] 0} <nil>", "{[1 2] 0}"}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", from, got, want)
			}
			if _, err := region.Ask(within(t, time.Minute), id, parcel{Items: make([]int, 100)}); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, request beyond the limit: %v", from, err)
			}
			for range 2 { // the second answer is beyond the limit
				_, err = region.Ask(within(t, time.Minute), id, parcel{Items: make([]int, 80)})
			}
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, answer beyond the limit: %v", from, err)
			}
		}
	})
}

// The codec's errors come on a strict node as they do from another one.
func TestStrictMessagesFailAsFromAnotherNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		c.strict = true
		id, local, remote := pair(t, c, Type[string, string]{
			Name: "echo", ReqCodec: spelled{}, RespCodec: spelled{},
			New: func(string) Entity[string, string] {
				return Func(func(_ *Context, req string) (string, error) {
					answer, _ := strings.CutPrefix(req, "say ")
					return map[string]string{"bad": "unwritable", "worse": "unspeakable", "odd": "unreadable"}[answer], nil
				})
			},
		})
		for _, req := range []string{"unwritable", "unspeakable", "unreadable", "unbearable", "say bad", "say worse", "say odd"} {
			for name, region := range map[string]*Region[string, string]{"local": local, "remote": remote} {
				if _, err := region.Ask(within(t, time.Minute), id, req); !errors.Is(err, ErrCodec) || errors.Is(err, ErrPanicked) {
					t.Errorf("%s %q: %v", name, req, err)
				}
			}
		}
		synctest.Wait()
		if n := local.Stats().Asks + remote.Stats().Asks; n != 0 {
			t.Errorf("%d asks still wait", n)
		}
	})
}
