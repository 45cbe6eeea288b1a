package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Raw limits: what one connection between two processes carries when nothing is
// done with the frames. A connection begins with a byte that names its mode; frames
// are a length and a body, as those of the transport are.
const (
	rawSink = 'S' // counts frames, and answers with the count when the client closes
	rawEcho = 'E' // sends each frame back

	rawBody   = 100
	rawFrame  = 4 + rawBody
	rawBuffer = 64 << 10
)

// serveRaw serves both modes until l closes.
func serveRaw(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			// A client that goes away ends its connection; there is nothing to tell.
			_ = rawConn(c)
		}()
	}
}

func rawConn(c net.Conn) error {
	r, w := bufio.NewReaderSize(c, rawBuffer), bufio.NewWriterSize(c, rawBuffer)
	mode, err := r.ReadByte()
	if err != nil {
		return err
	}
	frame := make([]byte, rawFrame)
	count := uint64(0)
	for {
		if _, err := io.ReadFull(r, frame); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		count++
		if mode != rawEcho {
			continue
		}
		if _, err := w.Write(frame); err != nil {
			return err
		}
		if r.Buffered() < rawFrame {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, count)); err != nil {
		return err
	}
	return nil
}

// rawPipe is the client's end: callers append frames under a mutex, one goroutine
// writes what has gathered.
type rawPipe struct {
	c      net.Conn
	mu     sync.Mutex
	wake   sync.Cond
	buf    []byte
	closed bool
	done   chan error
}

// rawBufferMost is how much may gather before callers wait.
const rawBufferMost = 1 << 20

func dialRaw(addr string, mode byte) (*rawPipe, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte{mode}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	p := &rawPipe{c: c, done: make(chan error, 1)}
	p.wake.L = &p.mu
	go p.flush()
	return p, nil
}

func (p *rawPipe) send(frame []byte) {
	p.mu.Lock()
	for len(p.buf) > rawBufferMost {
		p.wake.Wait()
	}
	p.buf = append(p.buf, frame...)
	p.mu.Unlock()
	p.wake.Broadcast()
}

func (p *rawPipe) flush() {
	var out []byte
	for {
		p.mu.Lock()
		for len(p.buf) == 0 && !p.closed {
			p.wake.Wait()
		}
		p.buf, out = out[:0], p.buf
		end := p.closed && len(out) == 0
		p.mu.Unlock()
		p.wake.Broadcast()
		if end {
			p.done <- nil
			return
		}
		if _, err := p.c.Write(out); err != nil {
			p.done <- err
			return
		}
	}
}

// finish waits until all is written.
func (p *rawPipe) finish() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake.Broadcast()
	return <-p.done
}

// rawOneWay returns the frames per second of senders that share a connection.
func rawOneWay(addr string, senders, frames int) (float64, error) {
	p, err := dialRaw(addr, rawSink)
	if err != nil {
		return 0, err
	}
	defer p.c.Close()
	began := time.Now()
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			frame := make([]byte, rawFrame)
			for range frames / senders {
				p.send(frame)
			}
		})
	}
	wg.Wait()
	if err := p.finish(); err != nil {
		return 0, err
	}
	if err := p.c.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	var count [8]byte
	if _, err := io.ReadFull(p.c, count[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint64(count[:])
	if n != uint64(frames/senders*senders) {
		return 0, fmt.Errorf("%d of %d raw frames arrived", n, frames)
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// rawPingPong returns the times of round trips one after the other.
func rawPingPong(addr string, d time.Duration) ([]time.Duration, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Write([]byte{rawEcho}); err != nil {
		return nil, err
	}
	frame := make([]byte, rawFrame)
	var times []time.Duration
	for end := time.Now().Add(d); time.Now().Before(end); {
		began := time.Now()
		if _, err := c.Write(frame); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, frame); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// rawPipelined returns the round trips per second of callers that share a
// connection, each waiting for its own answer.
func rawPipelined(addr string, callers int, d time.Duration) (float64, error) {
	p, err := dialRaw(addr, rawEcho)
	if err != nil {
		return 0, err
	}
	answers := make([]chan struct{}, callers)
	for i := range answers {
		answers[i] = make(chan struct{}, 1)
	}
	read := make(chan error, 1)
	go func() {
		r := bufio.NewReaderSize(p.c, rawBuffer)
		frame := make([]byte, rawFrame)
		for {
			if _, err := io.ReadFull(r, frame); err != nil {
				read <- err
				return
			}
			answers[binary.BigEndian.Uint32(frame[4:])] <- struct{}{}
		}
	}()
	rate := perSecond(callers, d, func(i int) func() error {
		frame := make([]byte, rawFrame)
		binary.BigEndian.PutUint32(frame[4:], uint32(i))
		return func() error {
			p.send(frame)
			<-answers[i]
			return nil
		}
	})
	err = p.finish()
	p.c.Close()
	<-read // it ended with the connection
	return rate.n, errors.Join(err, rate.err)
}
