package activation

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
)

// mark is what tells the goroutine of a worker from all others in a profile: labels. Go
// has no other way to one goroutine's stack that does not hold all the others up while it
// is taken.
type mark struct {
	// id is unique in the process while the worker exists.
	id     string
	labels context.Context
}

// The labels' keys. The type's is for users: profiles of processor time can be cut by it.
const (
	labelWorker = "peerage_worker"
	labelType   = "peerage_type"
)

func newHands[C, Req, Resp any](typ string, newContext func() (C, *Context)) *hands[C, Req, Resp] {
	h := &hands[C, Req, Resp]{own: new(box[Req]), newContext: newContext}
	h.mark.id = fmt.Sprintf("%p", h) // an address: no two workers have the same
	h.mark.labels = pprof.WithLabels(context.Background(), pprof.Labels(labelWorker, h.mark.id, labelType, typ))
	h.renewContext()
	return h
}

// set labels the goroutine that calls it.
func (m *mark) set() { pprof.SetGoroutineLabels(m.labels) }

// stackBytesMax bounds one goroutine's stack.
const stackBytesMax = 8 << 10

// stacksOf returns the stacks of the calls' goroutines, by mark. It costs in proportion to
// the number of goroutines of the process.
func stacksOf(calls []call) map[string]string {
	f := finder{wanted: map[string]bool{}, found: map[string]string{}}
	for _, c := range calls {
		f.wanted[c.mark] = true
	}
	_ = pprof.Lookup("goroutine").WriteTo(&f, 1) // finder's Write does not fail
	f.end()
	return f.found
}

// finder takes the text of a goroutine profile and keeps the stacks with labels that are
// wanted. The profile has a paragraph for each stack: a line of counters, one of labels,
// then the frames.
type finder struct {
	wanted map[string]bool
	found  map[string]string
	line   []byte
	// mark is that of the paragraph, "" if it is not wanted.
	mark  string
	stack strings.Builder
}

func (f *finder) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			f.line = append(f.line, p...)
			return n, nil
		}
		f.take(append(f.line, p[:i]...))
		f.line, p = f.line[:0], p[i+1:]
	}
}

func (f *finder) take(line []byte) {
	text := string(line)
	switch {
	case text == "":
		f.end()
	case strings.HasPrefix(text, "# labels:"):
		if mark := labelIn(text); f.wanted[mark] {
			f.mark = mark
		}
	case f.mark != "" && strings.HasPrefix(text, "#\t") && f.stack.Len() < stackBytesMax:
		// # address, function and offset, file and line
		if fields := strings.Fields(text); len(fields) >= 4 {
			fmt.Fprintf(&f.stack, "%s\n\t%s\n", fields[2], strings.Join(fields[3:], " "))
		}
	}
}

// end closes a paragraph.
func (f *finder) end() {
	if f.mark != "" {
		f.found[f.mark] = f.stack.String()
	}
	f.mark = ""
	f.stack.Reset()
}

// labelIn returns the worker's label of a line of labels: {"key":"value", "key":"value"}.
func labelIn(line string) string {
	_, rest, _ := strings.Cut(line, strconv.Quote(labelWorker)+":")
	rest, ok := strings.CutPrefix(rest, `"`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
