package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/peerage-go/peerage/sharding"
)

// A client may send perSecond requests a second, and burst of them after a pause.
const (
	burst     = 10
	perSecond = 5
)

// bucket is the entity of a client: a token bucket.
type bucket struct {
	tokens float64
	filled time.Time
}

// newBucket returns a full bucket.
func newBucket(string) sharding.Entity[struct{}, bool] {
	return &bucket{tokens: burst, filled: time.Now()}
}

// Handle takes a token for one request, if there is one.
func (b *bucket) Handle(*sharding.Context, struct{}) (bool, error) {
	now := time.Now()
	b.tokens = min(burst, b.tokens+now.Sub(b.filled).Seconds()*perSecond)
	b.filled = now
	if b.tokens < 1 {
		return false, nil
	}
	b.tokens--
	return true, nil
}

// Snapshot and Restore take the tokens along when the bucket moves to another node. The
// time does not travel: clocks of nodes differ.
func (b *bucket) Snapshot(*sharding.Context) ([]byte, error) { return json.Marshal(b.tokens) }

func (b *bucket) Restore(_ *sharding.Context, state []byte) error {
	return json.Unmarshal(state, &b.tokens)
}

// buckets is the handle for messages to buckets.
type buckets = sharding.Region[struct{}, bool]

func bucketType() sharding.Type[struct{}, bool] {
	return sharding.Type[struct{}, bool]{
		Name: "bucket",
		New:  newBucket,
		// After a minute a bucket is full, and a new one is the same.
		IdleTimeout: time.Minute,
	}
}

// allowRequest reports whether a request of a client may pass. If its bucket does not
// answer in time, the request passes: the limiter must not be the outage.
func allowRequest(ctx context.Context, region *buckets, client string) bool {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	allowed, err := region.Ask(ctx, client, struct{}{})
	return allowed || err != nil
}
