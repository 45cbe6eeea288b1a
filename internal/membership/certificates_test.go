package membership

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/transport"
)

// certificates returns a new authority's certificates for as many nodes, all named
// "peers.test".
func certificates(t *testing.T, nodes int) []*transport.Certificates {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	must := func(der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	rootKey := key()
	ca := write("ca", "CERTIFICATE", must(x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)))
	var out []*transport.Certificates
	for i := range nodes {
		leaf := &x509.Certificate{SerialNumber: big.NewInt(int64(i) + 2), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"peers.test"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		k := key()
		c, err := transport.LoadCertificates(transport.CertificateFiles{
			Cert: write(string(rune('a'+i)), "CERTIFICATE", must(x509.CreateCertificate(rand.Reader, leaf, root, k.Public(), rootKey))),
			Key:  write(string(rune('A'+i)), "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(k))),
			CA:   ca, Name: "peers.test",
		})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// Nodes with certificates of one authority form a cluster; a node of another authority,
// and one without a certificate, stay out.
func TestCertificates(t *testing.T) {
	addrs := freeAddrs(t, 4)
	own, other := certificates(t, 2), certificates(t, 1)
	a := startTCP(t, addrs[0], Config{Join: addrs[:2], Certificates: own[0]})
	b := startTCP(t, addrs[1], Config{Join: addrs[:2], Certificates: own[1]})
	ms := []*member{a, b}
	eventually(t, 10*time.Second, "one view of 2", func() bool { return agree(ms) })
	foreign := startTCP(t, addrs[2], Config{Join: addrs[:2], Certificates: other[0]})
	bare := startTCP(t, addrs[3], Config{Join: addrs[:2]})
	awaitLog(t, foreign, "contact point does not answer", addrs[0])
	awaitLog(t, bare, "contact point does not answer", addrs[0])
	if len(a.View().Members) != 2 {
		t.Error("one of them was admitted")
	}
}
