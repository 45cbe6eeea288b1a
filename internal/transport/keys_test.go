package transport

import (
	"crypto/ed25519"
	"crypto/x509"
	"testing"
)

// FuzzKeyProof verifies arbitrary keys and signatures.
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
		if p.signs([]byte("another statement")) && hashKey(spki) == hashKey(key) {
			t.Fatalf("%x was never signed", signature)
		}
	})
}
