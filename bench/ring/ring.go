package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	// pointsEach is how many points of the ring a process has, so that each has about as many keys.
	pointsEach = 128
	// missedMax is how many checks in a row a process may fail before it leaves the ring.
	missedMax = 3
)

// ring is one process of the service. Its methods may be called concurrently.
type ring struct {
	self   string
	peers  []string
	client *http.Client
	// points are those of all processes, sorted by hash.
	points []point

	mu     sync.Mutex
	counts map[string]int
	// missed counts the checks in a row that a process has failed.
	missed map[string]int
}

// point is a place of the ring: the keys up to it belong to its process.
type point struct {
	hash    uint64
	process string
}

func newRing(self string, processes []string) *ring {
	r := &ring{self: self, client: &http.Client{}, counts: map[string]int{}, missed: map[string]int{}}
	for _, p := range processes {
		for i := range pointsEach {
			r.points = append(r.points, point{hashOf(fmt.Sprint(p, "/", i)), p})
		}
		if p != self {
			r.peers = append(r.peers, p)
		}
	}
	slices.SortFunc(r.points, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	return r
}

// hashOf returns a hash whose upper bits differ for similar texts, too.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	x := h.Sum64()
	x = (x ^ x>>32) * 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// ownerOf returns the process of the first point behind the key's hash that is on the ring.
func (r *ring) ownerOf(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, _ := slices.BinarySearchFunc(r.points, hashOf(key), func(p point, h uint64) int { return cmp.Compare(p.hash, h) })
	for i := range r.points {
		if p := r.points[(from+i)%len(r.points)].process; r.missed[p] < missedMax {
			return p
		}
	}
	return r.self
}

// addHere raises a count that is kept here. It does not ask whether the key belongs here.
func (r *ring) addHere(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[key]++
	return r.counts[key]
}

// addAnywhere raises a count at the process to which its key belongs, as this process sees it.
func (r *ring) addAnywhere(ctx context.Context, key string) (n int, err error) {
	owner := r.ownerOf(key)
	if owner == r.self {
		return r.addHere(key), nil
	}
	answer, err := r.sendRequest(ctx, http.MethodPost, "http://"+owner+"/counts/"+url.PathEscape(key))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	return n, json.NewDecoder(answer.Body).Decode(&n)
}

func (r *ring) sendRequest(ctx context.Context, method, url string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	return r.client.Do(q)
}

// checkAll checks all other processes at the same time, each for at most patience.
func (r *ring) checkAll(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var checks sync.WaitGroup
	for _, p := range r.peers {
		checks.Go(func() {
			answer, err := r.sendRequest(ctx, http.MethodGet, "http://"+p+"/alive")
			if err == nil {
				answer.Body.Close()
			}
			r.recordCheck(p, err == nil)
		})
	}
	checks.Wait()
}

func (r *ring) recordCheck(process string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok {
		r.missed[process] = 0
		return
	}
	r.missed[process]++
}
