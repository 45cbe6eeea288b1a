package fleet

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// portMin and portEnd bound ports below those that systems give to outgoing connections,
	// which begin at 32768 on Linux.
	portMin, portEnd = 20_000, 32_000
	// portTries is how many ports are tried at a host.
	portTries = 20
)

// FreeAddrs returns one address of each host at which nothing listens now. No outgoing
// connection takes it before a process listens there, and on Linux no other fleet of this
// machine takes it before release or the end of this process.
func FreeAddrs(hosts ...string) (addrs []string, release func(), err error) {
	var held []io.Closer
	release = func() {
		for _, h := range held {
			h.Close()
		}
	}
	for _, host := range hosts {
		addr, lock, err := freeAddr(host)
		if err != nil {
			release()
			return nil, nil, err
		}
		addrs, held = append(addrs, addr), append(held, lock)
	}
	return addrs, release, nil
}

// freeAddr reserves a random port of a host at which nothing listens.
func freeAddr(host string) (addr string, lock io.Closer, err error) {
	for range portTries {
		addr = net.JoinHostPort(host, strconv.Itoa(portMin+rand.IntN(portEnd-portMin)))
		if lock, err = reserve(addr); err != nil {
			continue // another fleet has it
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr, lock, nil
		}
		lock.Close()
	}
	return "", nil, fmt.Errorf("no free port at %s: %w", host, err)
}
