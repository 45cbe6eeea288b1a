package peerage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/peerage-go/peerage/sharding"
)

// askAll serves a query to all nodes about the entity type of the request.
func (n *Node) askAll(ask func(ctx context.Context, typ string, q url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("type") == "" {
			http.Error(w, fmt.Sprintf("type= is missing: one of %q", n.registry.Types()), http.StatusBadRequest)
			return
		}
		answer, err := ask(r.Context(), q.Get("type"), q)
		if err != nil {
			http.Error(w, err.Error(), httpStatus(err))
			return
		}
		writeJSON(w, answer)
	}
}

// errBadShard is an error of the client.
var errBadShard = errors.New("shard must be a number, or id an entity's")

func httpStatus(err error) int {
	switch {
	case errors.Is(err, sharding.ErrUnknownType), errors.Is(err, sharding.ErrNoHome), errors.Is(err, sharding.ErrNoShard):
		return http.StatusNotFound
	case errors.Is(err, sharding.ErrBadID), errors.Is(err, errBadShard):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func (n *Node) explain(ctx context.Context, typ string, q url.Values) (any, error) {
	if id := q.Get("id"); id != "" {
		shard, err := n.registry.ShardOf(typ, id)
		if err != nil {
			return nil, err
		}
		return n.registry.Explain(ctx, typ, shard)
	}
	shard, err := strconv.ParseUint(q.Get("shard"), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errBadShard, q.Get("shard"))
	}
	return n.registry.Explain(ctx, typ, sharding.ShardID(shard))
}

// writeJSON answers a request with v.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	// The write fails only if the client is gone.
	_ = enc.Encode(v)
}

// writeText answers a request with plain text.
func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // fails only if the client is gone
}
