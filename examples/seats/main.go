// Command seats sells seats of concerts over HTTP, on several processes with TLS between
// them. docs/GUIDE.md builds it up.
//
//	go run ./cmd/peerage certs --dir d --nodes a,b,c
//	go run ./examples/seats --certs d --name a --listen 127.0.0.1:7101 --http 127.0.0.1:8101 --join 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/peerage-go/peerage"
)

func main() {
	cfg := peerage.Config{Cluster: "seats", Logger: slog.Default()}
	flag.StringVar(&cfg.Name, "name", "a", "name of the node")
	flag.StringVar(&cfg.Listen, "listen", "127.0.0.1:7101", "address for other nodes")
	join := flag.String("join", "", "addresses of all nodes, with commas; the same list for each")
	web := flag.String("http", "127.0.0.1:8101", "address for HTTP")
	certs := flag.String("certs", "", "directory that `peerage certs` has written")
	flag.Parse()
	cfg.Metadata = map[string]string{"http": *web} // where the commands of `peerage` find it
	if *join != "" {
		cfg.Join = strings.Split(*join, ",")
	}
	if err := runService(cfg, *certs, *web); err != nil {
		log.Fatal(err)
	}
}

// runService runs the service until SIGTERM or Ctrl-C.
func runService(cfg peerage.Config, certs, web string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := secureConfig(&cfg, certs); err != nil {
		return err
	}
	node, handler, err := startService(ctx, cfg)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: web, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	slog.Info("serving", "api", "http://"+web+"/concerts/", "dashboard", "http://"+web+"/dashboard/")
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = nil
	}
	last, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// Hand over the concerts first: requests that still arrive here are answered meanwhile.
	return errors.Join(err, node.Shutdown(last), server.Shutdown(last))
}
