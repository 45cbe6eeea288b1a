package transport

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"testing"
)

// FuzzKeyProof lets a stranger's key and signature be anything.
func FuzzKeyProof(f *testing.F) {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	key, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(key, ed25519.Sign(private, []byte("statement")))
	f.Add([]byte("x"), []byte{})
	f.Fuzz(func(t *testing.T, spki, signature []byte) {
		p := keyProof{spki, signature}
		if p.signs([]byte("statement")) && hashKey(spki) != sha256.Sum256(key) {
			return // some key of the fuzzer's own, well: it holds it
		}
		if p.signs([]byte("another statement")) && p.signs([]byte("statement")) {
			t.Fatalf("%x signs everything", spki)
		}
	})
}
