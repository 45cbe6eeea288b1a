package transport_test

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip/transport"
)

// A node with mutual TLS from files that may be replaced while it runs. What is
// wrong with them is said at once, and all of it.
func ExampleLoadCertificates() {
	certificates, err := transport.LoadCertificates(transport.CertificateFiles{
		Cert: "/etc/peerage/tls.crt",
		// Key and CA are missing.
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = transport.NewTCP(transport.TCPConfig{
		Config:       transport.Config{ID: 1, Name: "a", Cluster: "orders"},
		Certificates: certificates,
	})
	fmt.Println(err)
	// Output:
	// transport: CertificateFiles.Key is empty
	// transport: CertificateFiles.CA is empty
}
