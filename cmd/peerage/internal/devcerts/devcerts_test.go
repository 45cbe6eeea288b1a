package devcerts

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func testConfig(t *testing.T) Config {
	return Config{
		Dir: filepath.Join(t.TempDir(), "d"), Cluster: "shop", Name: "node.shop.internal", Valid: 24 * time.Hour,
		Nodes: []Node{{Name: "a", Listen: "10.0.0.1:7101", HTTP: "10.0.0.1:8101"}, {Name: "b", Listen: "b.shop:7101", HTTP: "b.shop:8101"}},
	}
}

func makeIn(t *testing.T, cfg Config) map[string]File {
	t.Helper()
	files, err := Make(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]File{}
	for _, f := range files {
		out[filepath.Base(f.Path)] = f
	}
	return out
}

func load(t *testing.T, cfg Config, name string) *x509.Certificate {
	t.Helper()
	der, err := readPEM(filepath.Join(cfg.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The authority signs all. A node is server and client, under the shared name and its own host;
// the operator is a client only, without a name.
func TestCertificatesAreForTheirUse(t *testing.T) {
	cfg := testConfig(t)
	makeIn(t, cfg)
	roots := x509.NewCertPool()
	roots.AddCert(load(t, cfg, authorityCert))
	verify := func(name, host string, usage x509.ExtKeyUsage) error {
		_, err := load(t, cfg, name).Verify(x509.VerifyOptions{Roots: roots, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	for _, c := range []struct {
		file, host string
		usage      x509.ExtKeyUsage
		ok         bool
	}{
		{"a.pem", "10.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"a.pem", cfg.Name, x509.ExtKeyUsageClientAuth, true},
		{"b.pem", "b.shop", x509.ExtKeyUsageServerAuth, true},
		{"a.pem", "b.shop", x509.ExtKeyUsageServerAuth, false},
		{Operator + ".pem", "", x509.ExtKeyUsageClientAuth, true},
		{Operator + ".pem", "", x509.ExtKeyUsageServerAuth, false},
		{Operator + ".pem", cfg.Name, x509.ExtKeyUsageClientAuth, false},
	} {
		if err := verify(c.file, c.host, c.usage); (err == nil) != c.ok {
			t.Errorf("%s for %q, usage %d: %v, want %v", c.file, c.host, c.usage, err, c.ok)
		}
	}
}

func TestKeysAreTheOwnersAlone(t *testing.T) {
	cfg := testConfig(t)
	for name, f := range makeIn(t, cfg) {
		info, err := os.Stat(f.Path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(cfg.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
}

// The second call keeps what nodes share or their owner may have edited, and renews the rest.
func TestASecondCallRenewsCertificatesAlone(t *testing.T) {
	cfg := testConfig(t)
	makeIn(t, cfg)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(cfg.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	edited := read("a.yaml") + "# mine\n"
	if err := os.WriteFile(filepath.Join(cfg.Dir, "a.yaml"), []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	for _, name := range []string{authorityCert, authorityKey, keysFile, "a.pem", "a.yaml"} {
		before[name] = read(name)
	}
	files := makeIn(t, cfg)
	for name, text := range before {
		if kept := read(name) == text; kept != (name != "a.pem") {
			t.Errorf("%s: kept %v", name, kept)
		}
	}
	if !files["a.yaml"].Kept || !files[keysFile].Kept || files["a.pem"].Kept {
		t.Errorf("reported %+v", files)
	}
}

func TestADamagedAuthorityIsAnError(t *testing.T) {
	for name, text := range map[string]string{authorityCert: "no PEM", authorityKey: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		cfg := testConfig(t)
		makeIn(t, cfg)
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Make(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s damaged: %v", name, err)
		}
	}
}
