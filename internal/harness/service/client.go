package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/history"
)

const (
	answerBytesMax = 1 << 20
	// connectionsMax bounds the idle connections to one process.
	connectionsMax = 256
)

// Client asks the processes of a service from outside, each attempt at any of them, as a client
// with a list of addresses does.
type Client struct {
	spec    *Spec
	addrs   []string
	history *history.Writer
	path    string
	http    *http.Client
	load    *load.Callers

	// values are the numbers that were written so far.
	values atomic.Uint64

	mu sync.Mutex
	// answered is when the last request that has an answer was due, for each key.
	answered []clock.Instant
}

// NewClient returns a client of the processes at these addresses. Each key is asked every
// interval. It records all attempts in a new file at path.
func NewClient(spec *Spec, addrs []string, every time.Duration, inFlight int, path string) (*Client, error) {
	w, err := history.Create(path)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		MaxIdleConns: connectionsMax * len(addrs), MaxIdleConnsPerHost: connectionsMax,
		DialContext: (&net.Dialer{Timeout: load.AttemptPatience}).DialContext,
	}
	c := &Client{
		spec: spec, addrs: addrs, history: w, path: path, http: &http.Client{Transport: transport},
		answered: make([]clock.Instant, spec.Keys()),
	}
	boot := clock.Boot()
	c.load = &load.Callers{
		Counters: spec.Keys(), Every: every, InFlight: inFlight, Clock: boot, History: w,
		Turn: func() (int, int) { return 0, 1 }, Leaving: func() bool { return false }, Node: func() uint64 { return 0 },
		Ask: c.askKey, Reason: reasonOf,
	}
	return c, nil
}

// Run asks until ctx ends, and returns when the last request has ended.
func (c *Client) Run(ctx context.Context) {
	c.load.Run(ctx)
	c.http.CloseIdleConnections()
}

// Totals returns the counts so far.
func (c *Client) Totals() harness.Totals { return c.load.Totals() }

// Records ends the file of the history and reads it.
func (c *Client) Records() ([]history.Record, error) {
	if err := c.history.Close(); err != nil {
		return nil, err
	}
	return history.Read(c.path)
}

// AwaitAnswers waits until each key has answered an attempt that began after an instant.
func (c *Client) AwaitAnswers(ctx context.Context, since clock.Instant) error {
	for {
		missing := -1
		c.mu.Lock()
		for i, at := range c.answered {
			if at.Before(since) {
				missing = i
			}
		}
		c.mu.Unlock()
		if missing < 0 {
			return nil
		}
		if err := harness.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until %s answers: %w", load.CounterID(missing), err)
		}
	}
}

// askKey makes one attempt of a request.
func (c *Client) askKey(ctx context.Context, id string) (uint64, error) {
	number, _ := load.EntityNumber(id) // load makes them
	i := int(number)
	addr := c.addrs[rand.IntN(len(c.addrs))]
	r := history.Record{Op: history.Counted, Entity: number, Start: clock.Boot().Now()}
	endpoint, body, field := "", "", ""
	switch reg := c.spec.Register; {
	case reg == nil:
		endpoint, body, field = c.spec.Counter.Add, c.spec.Counter.Body, c.spec.Counter.Value
	case rand.IntN(2) == 0:
		r.Op, r.Value = history.Wrote, c.values.Add(1)
		endpoint, body = reg.Write, reg.Body
	default:
		r.Op = history.Seen
		endpoint, field = reg.Read, reg.Value
	}
	fill := strings.NewReplacer("{key}", "key-"+strconv.Itoa(i), "{value}", strconv.FormatUint(r.Value, 10))
	value, err := c.sendRequest(ctx, addr, fill.Replace(endpoint), fill.Replace(body), field, r.Op != history.Wrote)
	if err != nil {
		if r.Op != history.Seen { // it may take effect at any time
			r.Op = history.Unsure
			c.history.Write(r)
		}
		return 0, err
	}
	if r.Op != history.Wrote {
		r.Value = value
	}
	r.End = clock.Boot().Now()
	c.history.Write(r)
	c.mu.Lock()
	c.answered[i] = max(c.answered[i], r.Start)
	c.mu.Unlock()
	return r.Value, nil
}

// sendRequest sends one request, and reads the number in the answer if one is wanted.
func (c *Client) sendRequest(ctx context.Context, addr, endpoint, body, field string, wanted bool) (uint64, error) {
	method, path, _ := strings.Cut(endpoint, " ")
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
	if err != nil {
		return 0, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return 0, statusError(resp.StatusCode)
	}
	if !wanted {
		return 0, nil
	}
	return numberAt(b, field)
}

// statusError is an answer that is none.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// errNoNumber reports an answer without the number that the description promises.
var errNoNumber = errors.New("no number in the answer")

// numberAt returns the number at a place in JSON.
func numberAt(b []byte, field string) (uint64, error) {
	var v any
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return 0, fmt.Errorf("%w: %w", errNoNumber, err)
	}
	for _, key := range strings.FieldsFunc(field, func(r rune) bool { return r == '.' }) {
		object, ok := v.(map[string]any)
		if !ok {
			return 0, fmt.Errorf("%w at %q: %.100s", errNoNumber, field, b)
		}
		v = object[key]
	}
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%w at %q: %.100s", errNoNumber, field, b)
	}
	return strconv.ParseUint(n.String(), 10, 64)
}

// reasonOf names an error for the counts of failed attempts.
func reasonOf(err error) string {
	var status statusError
	var timeout net.Error
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.Is(err, errNoNumber):
		return errNoNumber.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "deadline"
	}
	return "connection"
}
