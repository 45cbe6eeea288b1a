package main

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/peerage-go/peerage"
)

// secureConfig sets the certificate of the node, and the keys of memberlist's datagrams, from
// the files of `peerage certs`.
func secureConfig(cfg *peerage.Config, dir string) error {
	if dir == "" {
		return errors.New("-certs is not set: `peerage certs --dir d --nodes a,b,c` makes a directory for it")
	}
	cfg.CertificateFiles = &peerage.CertificateFiles{
		Cert: filepath.Join(dir, cfg.Name+".pem"),
		Key:  filepath.Join(dir, cfg.Name+".key"),
		CA:   filepath.Join(dir, "ca.pem"),
		Name: "node.peerage.internal", // in every certificate of this cluster
	}
	text, err := os.ReadFile(filepath.Join(dir, "gossip.keys"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return err
		}
		cfg.SecretKeys = append(cfg.SecretKeys, key)
	}
	return nil
}
