package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// The raw limit: one TCP connection on the loopback interface, over which callers send frames
// of a length, the number of the caller and a payload. Callers append frames to one
// buffer, and one goroutine writes what has gathered; a caller that is alone writes by itself.
// No cluster, no route and no entity, but the same payloads.
const (
	rawHead       = 12 // length, caller, entity
	rawCallersMax = 1024
	rawBufferMax  = 1 << 20
)

func openRaw(ctx context.Context, s *settings) (entities, error) {
	if s.role == "caller" {
		return dialRaw(ctx, s.peers[0])
	}
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return nil, err
	}
	go serveRaw(l)
	return rawHome{l}, nil
}

// rawHome has no callers.
type rawHome struct{ l net.Listener }

func (rawHome) ask(context.Context, int, []byte, time.Duration) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

func (rawHome) tell(context.Context, int, []byte) error { return errors.ErrUnsupported }

func (h rawHome) close() { h.l.Close() }

func serveRaw(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = rawConn(c) // a caller that goes away ends its connection
		}()
	}
}

func rawConn(c net.Conn) error {
	in, out := bufio.NewReaderSize(c, 256<<10), bufio.NewWriterSize(c, 64<<10)
	var hs [remoteEntities]handler
	head, frame := make([]byte, rawHead), make([]byte, payloadBytes)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head)
		if n > payloadBytes {
			return errNoAnswer
		}
		if _, err := io.ReadFull(in, frame[:n]); err != nil {
			return err
		}
		id := binary.BigEndian.Uint32(head[8:])
		if id >= remoteEntities {
			return errNoAnswer
		}
		if answer := hs[id].handle(frame[:n]); answer != nil {
			binary.BigEndian.PutUint32(head, uint32(len(answer)))
			out.Write(head)
			out.Write(answer)
		}
		if in.Buffered() < rawHead {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

type rawCaller struct {
	c       net.Conn
	mu      sync.Mutex
	wake    sync.Cond // of the writer, and of senders that wait for room
	buf     []byte
	waiting [rawCallersMax]chan []byte
	free    chan int // numbers of callers that do not wait
}

func dialRaw(ctx context.Context, addr string) (*rawCaller, error) {
	var c net.Conn
	var err error
	for range 100 {
		if c, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr); err == nil {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	if err != nil {
		return nil, err
	}
	r := &rawCaller{c: c, free: make(chan int, rawCallersMax)}
	r.wake.L = &r.mu
	for i := range rawCallersMax {
		r.waiting[i] = make(chan []byte, 1)
		r.free <- i
	}
	go r.write()
	go r.read()
	return r, nil
}

func (r *rawCaller) send(caller, id int, b []byte) {
	r.mu.Lock()
	for len(r.buf) > rawBufferMax {
		r.wake.Wait()
	}
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(len(b)))
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(caller))
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(id))
	r.buf = append(r.buf, b...)
	r.mu.Unlock()
	r.wake.Broadcast()
}

func (r *rawCaller) write() {
	var out []byte
	for {
		r.mu.Lock()
		for len(r.buf) == 0 {
			r.wake.Wait()
		}
		r.buf, out = out[:0], r.buf
		r.mu.Unlock()
		r.wake.Broadcast()
		if _, err := r.c.Write(out); err != nil {
			return
		}
	}
}

func (r *rawCaller) read() {
	in, head := bufio.NewReaderSize(r.c, 256<<10), make([]byte, rawHead)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		b := make([]byte, min(binary.BigEndian.Uint32(head), payloadBytes))
		if _, err := io.ReadFull(in, b); err != nil {
			return
		}
		r.waiting[binary.BigEndian.Uint32(head[4:])%rawCallersMax] <- b
	}
}

// ask has no time limit: a raw connection that breaks ends the measurement.
func (r *rawCaller) ask(_ context.Context, id int, b []byte, _ time.Duration) ([]byte, error) {
	caller := <-r.free
	r.send(caller, id, b)
	got := <-r.waiting[caller]
	r.free <- caller
	return got, nil
}

func (r *rawCaller) tell(_ context.Context, id int, b []byte) error {
	r.send(0, id, b)
	return nil
}

func (r *rawCaller) close() { r.c.Close() }
