package sharding

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// laborious is a text codec whose Decode of a long text blocks until gate is closed.
type laborious struct {
	spelled
	long int
	gate chan struct{}
}

func (h laborious) Decode(p []byte) (string, error) {
	if len(p) >= h.long {
		<-h.gate
	}
	return h.spelled.Decode(p)
}

// A large request, or a large answer, that takes long to decode delays no message of its
// sending node to another entity.
func TestLargePayloadsAreDecodedBesideTheConnection(t *testing.T) {
	for _, large := range []string{strings.Repeat("x", 1<<16), "much"} {
		bubble(t, func(t *testing.T) {
			codec := laborious{long: 1 << 16, gate: make(chan struct{})}
			id, _, remote := pair(t, newCluster(t), Type[string, string]{
				Name: "echo", ReqCodec: codec, RespCodec: codec,
				New: func(string) Entity[string, string] {
					return Func(func(_ *Context, text string) (string, error) {
						if text == "much" {
							return strings.Repeat("x", 1<<16), nil
						}
						return text[:min(len(text), 10)], nil
					})
				},
			})
			done := make(chan error, 1)
			go func() {
				_, err := remote.Ask(within(t, time.Hour), id, large)
				done <- err
			}()
			synctest.Wait()
			const asks = 20
			answered := 0
			for i := range asks {
				if answer, err := remote.Ask(within(t, time.Minute), fmt.Sprint("other", i), "small"); err == nil && answer == "small" {
					answered++
				}
			}
			close(codec.gate)
			if err := <-done; err != nil {
				t.Errorf("%.10q: %v", large, err)
			}
			if answered != asks {
				t.Errorf("%d of %d small asks were answered while %.10q was decoded", answered, asks, large)
			}
		})
	}
}

// A small request that takes long to decode delays messages, answers included, from its
// sending node to the node that decodes it, and no others.
func TestASlowDecodeDelaysItsSendingNodeOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		codec := laborious{long: 100, gate: make(chan struct{})}
		id, regions := several(t, newCluster(t), 3, Type[string, string]{
			Name: "echo", ReqCodec: codec,
			New: func(string) Entity[string, string] {
				return Func(func(_ *Context, text string) (string, error) { return text, nil })
			},
		})
		done := make(chan error, 1)
		go func() {
			_, err := regions[1].Ask(within(t, time.Hour), id, strings.Repeat("x", 200))
			done <- err
		}()
		synctest.Wait()
		for i := range 40 {
			begun := time.Now()
			_, err := regions[2].Ask(within(t, time.Minute), fmt.Sprint("other", i), "small")
			if err != nil || time.Since(begun) > time.Second {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
		}
		close(codec.gate)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A large request or answer that cannot be decoded fails with the error of a small one.
func TestLargePayloadsFailAsSmallOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		id, local, remote := pair(t, c, Type[string, string]{
			Name: "echo", ReqCodec: spelled{}, RespCodec: spelled{},
			New: func(string) Entity[string, string] {
				return Func(func(_ *Context, req string) (string, error) {
					return strings.Replace(req, "say odd", "unreadable", 1), nil
				})
			},
		})
		large := strings.Repeat(".", 2*(8<<10))
		for _, req := range []string{"unreadable" + large, "unbearable" + large, "say odd" + large} {
			if _, err := remote.Ask(within(t, time.Minute), id, req); !errors.Is(err, ErrCodec) || errors.Is(err, ErrPanicked) {
				t.Errorf("%.10q: %v", req, err)
			}
		}
		if err := remote.Tell(within(t, time.Minute), id, "unreadable"+large); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := local.Stats(); s.Dropped[DropCodec] != 3 || s.Handled != 1 {
			t.Errorf("%d dropped for their codec, want 3; %d handled, want 1", s.Dropped[DropCodec], s.Handled)
		}
		if answer, err := remote.Ask(within(t, time.Minute), id, large); err != nil || answer != large {
			t.Errorf("a large one that can be read: %d bytes, %v", len(answer), err)
		}
	})
}
