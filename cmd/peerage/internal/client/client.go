// Package client asks the HTTP APIs of nodes: peerage.Node.Handler in any service, and what
// `peerage node` serves besides.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/peerage-go/peerage"
)

const (
	answerBytesMax = 64 << 20
	// dialMax bounds connecting to one node, so that the next one is asked soon.
	dialMax = 3 * time.Second
)

// Config says which nodes to ask, and how.
type Config struct {
	// Nodes are addresses of HTTP APIs, as host:port or URLs. The first that can be reached
	// answers for its cluster.
	Nodes []string
	// Certificates, if set, are those of this client: CA is the nodes' authority, Name the
	// name in the nodes' certificates if it is not the host's.
	Certificates peerage.CertificateFiles
}

// Client asks nodes. Its methods may be called concurrently.
type Client struct {
	http   *http.Client
	scheme string
	nodes  []string
}

// UnreachableError reports that no node could be reached.
type UnreachableError struct {
	Nodes []string
	Err   error
}

// ErrTooLate is the cause of a context that ends when the caller has waited long enough.
var ErrTooLate = errors.New("no answer in time")

// Error names the nodes and what to do.
func (e *UnreachableError) Error() string {
	if errors.Is(e.Err, ErrTooLate) {
		return fmt.Sprintf("%s does not answer in time; wait longer with --timeout, or ask another node with --node", strings.Join(e.Nodes, ", "))
	}
	text := e.Err.Error()
	if strings.Contains(text, "tls:") || strings.Contains(text, "x509:") {
		return fmt.Sprintf("no trusted connection to %s: %v; check --tls-ca, --tls-cert, --tls-key and --tls-name, and that --node is an HTTP API", strings.Join(e.Nodes, ", "), e.Err)
	}
	return fmt.Sprintf("no node answers at %s: %v; start one with `peerage node --http %s`, or name another with --node",
		strings.Join(e.Nodes, ", "), e.Err, strings.TrimPrefix(strings.TrimPrefix(e.Nodes[0], "http://"), "https://"))
}

// Unwrap returns the error of the node asked last.
func (e *UnreachableError) Unwrap() error { return e.Err }

// RefusedError is the answer of a node that did not do what it was asked.
type RefusedError struct {
	Node   string
	Status int
	Text   string
}

// Error returns what the node wrote. The text for a node that serves TLS is that of net/http.
func (e *RefusedError) Error() string {
	if strings.Contains(e.Text, "HTTP request to an HTTPS server") {
		return e.Node + " serves TLS only: name this client's certificates with --config, or with --tls-ca, --tls-cert and --tls-key"
	}
	return e.Node + " answers: " + e.Text
}

// New returns a client. It reads the files of the certificates.
func New(cfg Config) (*Client, error) {
	c := &Client{scheme: "http", nodes: cfg.Nodes}
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialMax}).DialContext, TLSHandshakeTimeout: dialMax, MaxIdleConnsPerHost: 4,
	}
	if cfg.Certificates != (peerage.CertificateFiles{}) {
		settings, err := clientTLS(cfg.Certificates)
		if err != nil {
			return nil, err
		}
		c.scheme, transport.TLSClientConfig = "https", settings
	}
	c.http = &http.Client{Transport: transport}
	for _, node := range cfg.Nodes {
		if u, err := url.Parse(c.base(node)); err != nil || u.Host == "" || u.Port() == "" {
			return nil, fmt.Errorf("--node %s is not host:port or a URL with a port", node)
		}
	}
	return c, nil
}

func clientTLS(files peerage.CertificateFiles) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: files.Name}
	if files.CA == "" {
		return nil, errors.New("--tls-ca is missing: name the file with the nodes' authority")
	}
	text, err := os.ReadFile(files.CA)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--tls-ca: %s holds no certificate in PEM", files.CA)
	}
	if files.Cert != "" || files.Key != "" {
		cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// base returns the URL of a node's API, without a slash at the end.
func (c *Client) base(node string) string {
	if !strings.Contains(node, "://") {
		node = c.scheme + "://" + node
	}
	return strings.TrimSuffix(node, "/")
}

// Do sends a request to the first of the nodes that can be reached, and decodes its JSON into
// out. It returns an *UnreachableError or a *RefusedError.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, out any) error {
	var err error
	for _, node := range c.nodes {
		err = c.DoAt(ctx, node, method, path, query, out)
		if unreachable := (*UnreachableError)(nil); !errors.As(err, &unreachable) || ctx.Err() != nil {
			return err
		}
	}
	if unreachable := (*UnreachableError)(nil); len(c.nodes) > 1 && errors.As(err, &unreachable) {
		return &UnreachableError{Nodes: c.nodes, Err: unreachable.Err}
	}
	return err
}

// DoAt does the same at one node.
func (c *Client) DoAt(ctx context.Context, node, method, path string, query url.Values, out any) error {
	body, err := c.fetch(ctx, node, method, path, query)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s answers, but not like a node: %w; --node names the HTTP API of a node, not the port for its peers", node, err)
	}
	return nil
}

func (c *Client) fetch(ctx context.Context, node, method, path string, query url.Values) ([]byte, error) {
	target := c.base(node) + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &UnreachableError{Nodes: []string{node}, Err: cause(ctx, err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
	if err != nil {
		return nil, &UnreachableError{Nodes: []string{node}, Err: cause(ctx, err)}
	}
	if resp.StatusCode/100 != 2 {
		return nil, &RefusedError{Node: node, Status: resp.StatusCode, Text: refusalText(resp.Status, body)}
	}
	return body, nil
}

// cause returns why ctx ended, or an error without the method and the URL, which the caller
// names.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// refusalText returns the text of an answer that is an error: that in its JSON, or its body.
func refusalText(status string, body []byte) string {
	var failure struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(body, &failure); err == nil && failure.Error != "" {
		return failure.Error
	}
	if text := strings.TrimSpace(string(body)); text != "" {
		return text
	}
	return status
}
