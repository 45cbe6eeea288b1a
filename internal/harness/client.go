package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const statusBytesMax = 16 << 20

// Fetch sends a request without a body to a node, and returns the body of its answer.
func Fetch(ctx context.Context, method, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, statusBytesMax))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// Drained is the body of the answer to POST /drain.
type Drained struct {
	Name string `json:"name"`
	Node string `json:"node"`
	// TookMS is how long the caller waited, in milliseconds.
	TookMS float64 `json:"took_ms"`
}

// DrainAt drains the node whose HTTP API is at addr, and waits until it is out.
func DrainAt(ctx context.Context, addr string) (Drained, error) {
	var d Drained
	body, err := Fetch(ctx, http.MethodPost, "http://"+addr+"/drain")
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return d, fmt.Errorf("%s answers, but not like a node: %s", addr, strings.TrimSpace(string(body)))
	}
	return d, nil
}
