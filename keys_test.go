package peerage

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func aesKey(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 32) }

// TestRotatedKeysOutliveIncarnations: a rotation counts for the incarnation that
// lives, for the next, and even when it comes between the two.
func TestRotatedKeysOutliveIncarnations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := TestConfig()
		cfg.Listen, cfg.SecretKeys, cfg.Bootstrap = "10.0.0.1:7101", [][]byte{aesKey(1)}, true
		cfg.Network = NewNetwork(1)
		n, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
			<-time.After(time.Minute) // memberlist's Shutdown does not wait for its probes
		}()
		holds := func(when string, want ...[]byte) {
			t.Helper()
			if got := n.stack.Load().gossip.SecretKeys(); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%s: the keys are %v", when, got)
			}
		}
		if err := n.RotateKeys([][]byte{aesKey(1), aesKey(2)}); err != nil {
			t.Fatal(err)
		}
		holds("after the first step", aesKey(1), aesKey(2))
		var ce *ConfigError
		if err := n.RotateKeys([][]byte{[]byte("hunter2")}); !errors.As(err, &ce) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a short key: %v", err)
		}
		old := n.stack.Load()
		old.overOnce.Do(func() { close(old.over) })
		for n.stack.Load() != nil {
			<-time.After(time.Millisecond)
		}
		if err := n.RotateKeys([][]byte{aesKey(2)}); err != nil {
			t.Error(err)
		}
		for n.stack.Load() == nil {
			<-time.After(time.Millisecond)
		}
		synctest.Wait()
		holds("in the next incarnation", aesKey(2))
	})
}

func TestKeysWhereThereAreNone(t *testing.T) {
	n, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.RotateKeys([][]byte{aesKey(1)}); !errors.Is(err, ErrNoKeys) {
		t.Errorf("%v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// certificateAt writes a certificate that signs itself, with a new key.
func certificateAt(t *testing.T, files CertificateFiles, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Duration(serial) * time.Hour),
		DNSNames: []string{files.Name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	cert, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{{files.Key, "PRIVATE KEY", secret}, {files.Cert, "CERTIFICATE", cert}, {files.CA, "CERTIFICATE", cert}} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCertificateFilesOfANode: New reads the files, and a change of them is taken over
// while the node runs.
func TestCertificateFilesOfANode(t *testing.T) {
	dir := t.TempDir()
	files := CertificateFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca"),
		Name: "peers.test", CheckEvery: time.Millisecond}
	if _, err := New(Config{CertificateFiles: &files}); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without files: %v", err)
	}
	certificateAt(t, files, 1)
	registry := prometheus.NewRegistry()
	n, err := Start(context.Background(), Config{CertificateFiles: &files, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	certificateAt(t, files, 2)
	for began := time.Now(); reloads(t, registry) == 0; {
		if time.Since(began) > 20*time.Second {
			t.Fatal("the new files are not taken over")
		}
		<-time.After(10 * time.Millisecond)
	}
	both := Config{CertificateFiles: &files, TLS: new(tls.Config)}
	if err := both.Validate(); err == nil || !strings.Contains(err.Error(), "CertificateFiles = set") {
		t.Errorf("both kinds: %v", err)
	}
}

// reloads returns how many changes of the files were taken over, by the metrics.
func reloads(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "peerage_transport_certificate_reloads_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() != "failed" && m.GetCounter().GetValue() > 0 {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
