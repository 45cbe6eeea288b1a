package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/peerage-go/peerage/sharding"
)

// command is what a cart understands.
type command interface{ applyTo(c *cart) error }

type put struct{ Item string }

type show struct{}

type empty struct{}

var errFull = errors.New("a cart holds 100 things")

func (p put) applyTo(c *cart) error {
	if len(c.Items) >= 100 {
		return errFull
	}
	c.Items[p.Item]++
	return nil
}

func (show) applyTo(*cart) error { return nil }

func (empty) applyTo(c *cart) error {
	clear(c.Items)
	return nil
}

// cart is the entity. Snapshot and Restore let it move.
type cart struct{ Items map[string]int }

func (c *cart) Handle(_ *sharding.Context, cmd command) (map[string]int, error) {
	if err := cmd.applyTo(c); err != nil {
		return nil, err
	}
	return maps.Clone(c.Items), nil // the answer must not share what the next command changes
}

func (c *cart) Snapshot(*sharding.Context) ([]byte, error) { return json.Marshal(c.Items) }

func (c *cart) Restore(_ *sharding.Context, state []byte) error {
	return json.Unmarshal(state, &c.Items)
}

func cartType() sharding.Type[command, map[string]int] {
	return sharding.Type[command, map[string]int]{
		Name: "cart",
		New: func(string) sharding.Entity[command, map[string]int] {
			return &cart{map[string]int{}}
		},
		ReqCodec: sharding.Kinds[command]{
			1: sharding.Kind[command](sharding.Msgpack[put]{}),
			2: sharding.Kind[command](sharding.Msgpack[show]{}),
			3: sharding.Kind[command](sharding.Msgpack[empty]{}),
		},
	}
}

// askHandler turns a request into a command, and the cart's reply into an HTTP response.
func askHandler(carts *sharding.Region[command, map[string]int], make func(*http.Request) command) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		items, err := carts.Ask(ctx, r.PathValue("id"), make(r))
		var said *sharding.HandlerError
		switch {
		case errors.As(err, &said): // the cart's own answer
			http.Error(w, said.Text, http.StatusConflict)
		case sharding.Retryable(err), errors.Is(err, sharding.ErrNodeStopping): // here and now
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(items)
		}
	}
}
