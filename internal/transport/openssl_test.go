package transport

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOpensslLines runs the lines that SECURITY.md offers to copy: they write a certificate
// that a node at that address can use, and a key of the right size.
func TestOpensslLines(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(openssl .*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no lines to run")
	}
	dir := t.TempDir()
	sh := exec.Command("sh", "-e", "-c", string(block[1]))
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	c, err := LoadCertificates(CertificateFiles{Cert: in("node.pem"), Key: in("node.key"), CA: in("ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.covers("10.0.0.7:7101"); err != nil {
		t.Error(err)
	}
	if key, err := os.ReadFile(in("gossip.key")); err != nil || len(key) != 32 {
		t.Errorf("a key of %d bytes, %v", len(key), err)
	}
	row := fmt.Sprintf("least bytes of one (fixed) | %d; %d; %d |", recordBytesMax, secretsMax, secretBytesMin)
	if !strings.Contains(string(page), row) {
		t.Errorf("the page has no row with %q", row)
	}
}
