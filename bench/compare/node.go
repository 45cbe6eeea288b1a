package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A node is one process of a system under measurement. It reads commands from its standard
// input, a line each, and answers each with a line of JSON. The nodes in Java
// (pekko/) speak the same lines.
//
//	start N              asks N entities until each has answered
//	ask CALLERS SECONDS  asks them again and again
//	tell SENDERS COUNT   tells them COUNT messages, and waits until they are handled
//	watch N SECONDS      asks each of N entities every 10 ms, and reports the longest wait
const (
	payloadBytes = 100 // of a request, its answer, and a tell
	askPatience  = 10 * time.Second
	// watchPatience is the time limit of each question while a process is killed.
	watchPatience = 500 * time.Millisecond
	watchEvery    = 10 * time.Millisecond
)

// The first byte of a payload says what the entity does.
const (
	opEcho  = 'e' // answers with the payload
	opCount = 'c' // counts it, and does not answer
	opTotal = 't' // answers with what it has counted, in decimal digits
	opHost  = 'h' // answers with the address of its process
)

// settings place a node in its cluster.
type settings struct {
	role   string   // "home" has the entities, "caller" has none, "member" is both
	listen string   // of the messages between nodes
	peers  []string // the listen addresses of all nodes, the same at each
	aux    []string // an HTTP address for each of peers, for systems that need one
}

// entities is what a caller can do in every system: the calls of its documentation, by id.
type entities interface {
	// ask waits for the answer at most for limit, in the system's cheapest way.
	ask(ctx context.Context, id int, payload []byte, limit time.Duration) ([]byte, error)
	tell(ctx context.Context, id int, payload []byte) error
	close()
}

// handler is what an entity does in every system written in Go. Entities are not
// handled by two goroutines at the same time, so it needs no lock.
type handler struct {
	host    string
	counted uint64
}

// handle returns the answer, nil for none.
func (h *handler) handle(payload []byte) []byte {
	if len(payload) == 0 {
		return nil
	}
	switch payload[0] {
	case opEcho:
		return payload
	case opCount:
		h.counted++
		return nil
	case opTotal:
		return fmt.Append(nil, h.counted)
	case opHost:
		return []byte(h.host)
	default:
		return nil
	}
}

func payload(op byte) []byte {
	b := make([]byte, payloadBytes)
	b[0] = op
	return b
}

// result is the answer to a command. Fields that a command does not set are left out.
type result struct {
	Ready   bool     `json:"ready,omitempty"`
	Error   string   `json:"error,omitempty"`
	Count   uint64   `json:"count,omitempty"`
	Failed  uint64   `json:"failed,omitempty"`
	Seconds float64  `json:"seconds,omitempty"`
	P50     float64  `json:"p50_us,omitempty"`
	P99     float64  `json:"p99_us,omitempty"`
	Waits   []waited `json:"waits,omitempty"`
}

// waited is the longest time between two answers of an entity, and where it was.
type waited struct {
	First  string  `json:"first"` // the address that answered first
	Last   string  `json:"last"`
	Millis float64 `json:"ms"`
	Failed int     `json:"failed"`
}

// runNode serves commands until the input ends.
func runNode(system string, s *settings, in io.Reader, out io.Writer) error {
	open, ok := goSystems[system]
	if !ok {
		return fmt.Errorf("no system %q", system)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	es, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer es.close()
	lines := json.NewEncoder(out)
	if err := lines.Encode(result{Ready: true}); err != nil {
		return err
	}
	input := bufio.NewScanner(in)
	for input.Scan() {
		r, err := command(ctx, es, input.Text())
		if err != nil {
			r.Error = err.Error()
		}
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return input.Err()
}

func command(ctx context.Context, es entities, line string) (result, error) {
	var name string
	var a, b int
	if _, err := fmt.Sscan(line, &name, &a); err != nil {
		return result{}, fmt.Errorf("command %q: %w", line, err)
	}
	if name != "start" {
		if _, err := fmt.Sscan(line, &name, &a, &b); err != nil {
			return result{}, fmt.Errorf("command %q: %w", line, err)
		}
	}
	switch name {
	case "start":
		return start(ctx, es, a)
	case "ask":
		return askFor(ctx, es, a, time.Duration(b)*time.Second)
	case "tell":
		return tellAll(ctx, es, a, b)
	case "watch":
		return watchFor(ctx, es, a, time.Duration(b)*time.Second)
	default:
		return result{}, fmt.Errorf("command %q: unknown", name)
	}
}

// goSystems opens the systems that run in this program.
var goSystems = map[string]func(ctx context.Context, s *settings) (entities, error){
	"raw":        openRaw,
	"peerage":    openPeerage,
	"protoactor": openProtoactor,
}

var errNoAnswer = errors.New("an answer of the wrong kind")

// nodeMain is the main function of a node.
func nodeMain(args []string) error {
	if len(args) != 5 {
		return errors.New("usage: compare node SYSTEM ROLE LISTEN PEERS AUX")
	}
	s := &settings{role: args[1], listen: args[2], peers: strings.Split(args[3], ","), aux: strings.Split(args[4], ",")}
	return runNode(args[0], s, os.Stdin, os.Stdout)
}
