package server

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// Limits of the HTTP API. It is for operators and load generators, so they are tight.
const (
	httpHeaderBytesMax = 16 << 10
	// httpReadMax bounds reading a request, httpWriteMax handling and answering it.
	httpReadMax  = 10 * time.Second
	httpWriteMax = 20 * time.Second
	httpIdleMax  = time.Minute
)

// newHTTPServer returns a server of h whose connections all end. Its errors, which any host that
// reaches the port can cause, are logged once a minute.
func newHTTPServer(h http.Handler, l *slog.Logger) *http.Server {
	return &http.Server{
		ErrorLog: log.New(&foldedErrors{to: l}, "", 0),
		Handler:  h, MaxHeaderBytes: httpHeaderBytesMax, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: httpReadMax, WriteTimeout: httpWriteMax, IdleTimeout: httpIdleMax,
	}
}

// foldedErrors writes the errors of net/http to a log.
type foldedErrors struct {
	to    *slog.Logger
	folds loglimit.Folder
}

// Write implements io.Writer for a log.Logger, which calls it once for each line.
func (f *foldedErrors) Write(line []byte) (int, error) {
	f.folds.Log(f.to, slog.LevelInfo, "http", "HTTP API: a connection failed", "error", strings.TrimSpace(string(line)))
	return len(line), nil
}

// guard rejects requests that a web page of another site makes a browser send.
// It rejects requests that change something and come from another origin. It also rejects
// requests for a host name that is not among hosts: a page may have pointed that name at
// this node (DNS rebinding). IP addresses and localhost are always allowed. Programs other
// than browsers send neither header and pass.
func guard(h http.Handler, hosts []string) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusForbidden, failure{Error: "the request comes from a page of another origin"})
	}))
	inner := origins.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowedHost(r.Host, hosts) {
			answer(w, http.StatusForbidden, failure{Error: "the host name in the request is not one of this node: use its address, or name the host with --http-host"})
			return
		}
		inner.ServeHTTP(w, r)
	})
}

func allowedHost(host string, hosts []string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// checkHTTPAddr rejects an address that is not loopback, unless insecure is set.
// The API has no authentication.
func checkHTTPAddr(addr string, insecure bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || insecure || host == "localhost" {
		return nil // listening reports a malformed address
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--http %s is not a loopback address, and the API has no authentication: anyone who reaches it can drain the node; keep it on loopback behind a proxy, or give --http-tls or --insecure-http", addr)
}

const secretKeysFileMax = 64 << 10

// readSecretKeys reads a file of AES keys, one a line in base64; empty lines and lines that
// begin with # do not count. Errors do not quote the file.
func readSecretKeys(path string) (keys [][]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, secretKeysFileMax)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
			return nil, fmt.Errorf("line %d of %s is not an AES key of 16, 24 or 32 bytes in base64", n, path)
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no keys", path)
	}
	return keys, nil
}
