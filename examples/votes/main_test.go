package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/peeragetest"
)

// voteAt votes at a node, and returns the status and the body of the answer.
func voteAt(ctx context.Context, n *peeragetest.Node[http.Handler], poll string) (int, string) {
	w := httptest.NewRecorder()
	n.Service.ServeHTTP(w, httptest.NewRequest("POST", "/votes/"+poll, nil).WithContext(ctx))
	return w.Code, w.Body.String()
}

// A vote that was confirmed is counted, whichever node crashes, and votes go on at the others.
func TestConfirmedVotesSurviveACrash(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			c := peeragetest.Start(t, 3, startVotes)
			for i := range 30 {
				for votes := range 2 {
					want := fmt.Sprintf("{\"votes\":%d}\n", votes+1)
					if code, body := voteAt(t.Context(), c.Nodes()[votes], fmt.Sprint("poll", i)); code != http.StatusOK || body != want {
						t.Fatalf("vote %d for poll%d: %d %s", votes+1, i, code, body)
					}
				}
			}
			c.Node(victim).Crash()
			c.WaitReady()
			for i := range 30 {
				n := c.Nodes()[i%2]
				if code, body := voteAt(t.Context(), n, fmt.Sprint("poll", i)); code != http.StatusOK || body != "{\"votes\":3}\n" {
					t.Errorf("poll%d at node %s after the crash of %s: %d %s", i, n.Name, victim, code, body)
				}
			}
			c.AssertSingleInstance()
		})
	}
}

// TestSettingsWithAndWithoutAList checks that a node without a list of addresses has settings that start it.
func TestSettingsWithAndWithoutAList(t *testing.T) {
	for _, list := range []string{"", "127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103"} {
		if _, err := peerage.New(withNodes(peerage.Config{Listen: "127.0.0.1:7101"}, list)); err != nil {
			t.Errorf("with the list %q: %v", list, err)
		}
	}
}

// In a rolling update no vote fails: chaos counts on it, and so do voters.
func TestVotesGoOnInARollingUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startVotes)
		allAnswered := c.KeepCalling(func(ctx context.Context, n *peeragetest.Node[http.Handler], i int) error {
			if code, body := voteAt(ctx, n, fmt.Sprint("poll", i%20)); code != http.StatusOK {
				return errors.New(body)
			}
			return nil
		})
		for _, name := range []string{"a", "b", "c"} {
			c.Node(name).Stop()
			c.Node(name).Restart()
			c.WaitReady()
		}
		if n := allAnswered(); n < 50 {
			t.Errorf("only %d votes", n)
		}
	})
}
