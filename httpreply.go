package peerage

import (
	"encoding/json"
	"net/http"
)

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
