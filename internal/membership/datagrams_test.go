package membership

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// logBook is a log that tests read.
type logBook struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

func (l *logBook) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.out.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// Datagrams that are not of this cluster, to the real port.
func TestDatagramsThatAreNotOurs(t *testing.T) {
	for _, keys := range [][][]byte{nil, {bytes.Repeat([]byte{1}, 32)}} {
		t.Run(fmt.Sprintf("%d keys", len(keys)), func(t *testing.T) {
			var book logBook
			n := startTCP(t, freeAddrs(t, 1)[0], Config{Bootstrap: true, SecretKeys: keys, Logger: book.logger()})
			conn, err := net.Dial("udp", n.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			garbage := make([]byte, 300)
			_, _ = rand.Read(garbage)
			before := n.Stats()
			eventually(t, 20*time.Second, "a hundred are counted", func() bool {
				for _, b := range [][]byte{garbage, []byte("\xf4\x07another"), []byte("\xf4\x00"), {}, {8}} {
					_, _ = conn.Write(b)
				}
				s := n.Stats()
				return s.PacketsNotOurs+s.Undecryptable >= before.PacketsNotOurs+100
			})
			if lines := book.count("memberlist: "); lines == 0 || lines > 60 { // of each kind one a minute
				t.Errorf("%d lines", lines)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := n.WaitUp(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
