package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// A page of another site makes its visitor's browser post to a node, directly or under a
// name of its own that resolves to the node's address. Nothing must come of it.
func TestAttackCrossSitePosts(t *testing.T) {
	a := startNode(t, "--name", "a", "--bootstrap")
	const form = "application/x-www-form-urlencoded"
	for _, header := range []map[string]string{
		{"Content-Type": form, "Origin": "http://evil.example"},
		{"Content-Type": form, "Origin": "null"},
		{"Content-Type": form, "Sec-Fetch-Site": "cross-site"},
		{"Content-Type": form, "Sec-Fetch-Site": "same-site"},
		{"Content-Type": form, "Origin": "http://evil.example:80", "Host": "evil.example:80"},
		{"Content-Type": form, "Origin": "http://evil.example", "Host": "evil.example", "Sec-Fetch-Site": "same-origin"},
	} {
		for _, path := range []string{"/drain", "/v1/counters/x/ask", "/v1/counters/x/tell"} {
			if code, body := send(t, http.MethodPost, "http://"+a.HTTP+path, "n=3", header); code != http.StatusForbidden {
				t.Errorf("POST %s with %v: %d %s", path, header, code, body)
			}
		}
	}
	if code, body := send(t, http.MethodGet, "http://"+a.HTTP+"/status", "", map[string]string{"Host": "evil.example"}); code != http.StatusForbidden {
		t.Errorf("GET /status under another name: %d %s", code, body)
	}
	eventually(t, "the node is still ready", func() bool {
		code, _ := get(t, "http://"+a.HTTP+"/readyz")
		return code == http.StatusOK
	})
	_, port, _ := net.SplitHostPort(a.HTTP)
	for _, header := range []map[string]string{{}, {"Host": "localhost:" + port}, {"Origin": "http://" + a.HTTP, "Sec-Fetch-Site": "same-origin"}} {
		if code, body := send(t, http.MethodGet, "http://"+a.HTTP+"/status", "", header); code != http.StatusOK {
			t.Errorf("GET /status with %v: %d %s", header, code, body)
		}
	}
}

// Requests that never end must not hold connections for ever.
func TestAttackSlowRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	a := startNode(t, "--name", "a", "--bootstrap")
	for what, text := range map[string]string{
		"half a header": "POST /v1/counters/x/ask HTTP/1.1\r\nHost: 127.0.0.1\r\n",
		"no body":       "POST /v1/counters/x/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", a.HTTP)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("it is not cut off: %v", err)
			}
		})
	}
	t.Run("a large header", func(t *testing.T) {
		code, _ := send(t, http.MethodGet, "http://"+a.HTTP+"/status", "", map[string]string{"X": strings.Repeat("x", 64<<10)})
		if code != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("64 KiB of header: %d", code)
		}
	})
}

// The API has no authentication, so it opens to the network only when that is asked for.
func TestAttackHTTPStaysOnLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "10.1.2.3:0"} {
		var out, errs bytes.Buffer
		code := run([]string{"node", "--http", addr, "--bootstrap"}, &out, &errs)
		if code == exitOK || !strings.Contains(errs.String(), "--insecure-http") {
			t.Errorf("--http %s: exit code %d, %s", addr, code, errs.String())
		}
	}
}

// testAuthority writes a CA and one certificate for the name "node" to a directory.
func testAuthority(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, kind string, der []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	make := func(name string, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		write(name+".crt", "CERTIFICATE", der, err)
		der, err = x509.MarshalECPrivateKey(key)
		write(name+".key", "EC PRIVATE KEY", der, err)
		return key
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authority := make("ca", ca, ca, nil)
	make("node", &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, DNSNames: []string{"node"}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca, authority)
	return dir
}

// `peerage node` runs as SECURITY.md asks: with certificates and keys, and not in the open.
func TestNodeRunsWithCertificatesAndKeys(t *testing.T) {
	dir := testAuthority(t)
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte("# the first encrypts\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addrs, release, err := fleet.FreeAddrs("127.0.0.1", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	secure := []string{"--tls-cert", filepath.Join(dir, "node.crt"), "--tls-key", filepath.Join(dir, "node.key"), "--tls-ca", filepath.Join(dir, "ca.crt"),
		"--tls-name", "node", "--secret-keys", keys, "--join", strings.Join(addrs, ",")}
	var nodes []harness.Report
	for i, addr := range addrs {
		nodes = append(nodes, startNode(t, append([]string{"--name", string(rune('a' + i)), "--listen", addr}, secure...)...))
	}
	for _, n := range nodes {
		eventually(t, n.Name+" stands in a cluster of two", func() bool {
			_, metrics := get(t, "http://"+n.HTTP+"/metrics")
			return strings.Contains(metrics, `peerage_cluster_members{state="up"} 2`)
		})
	}
	var out, errs bytes.Buffer
	if code := run([]string{"node", "--secret-keys", filepath.Join(dir, "ca.crt"), "--bootstrap"}, &out, &errs); code == exitOK ||
		!strings.Contains(errs.String(), "--secret-keys") || strings.Contains(errs.String(), "BEGIN") {
		t.Errorf("a file that holds no keys: %d %s", code, errs.String())
	}
}
