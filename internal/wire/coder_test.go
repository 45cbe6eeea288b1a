package wire_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/internal/wire/wiretest"
)

// A sample is a message with a field of each form.
type sample interface {
	sampleKind() byte
	codeFields(c *wire.Coder)
}

type item struct {
	ID   uint16
	Name string
}

func (i *item) codeFields(c *wire.Coder) {
	wire.Uvarint(c, &i.ID)
	c.String("name", &i.Name, 8)
}

type state uint8

type all struct {
	Big     uint64
	Small   uint32
	Signed  int64
	Count   int
	Hops    uint8
	Within  int64
	State   state
	Yes     bool
	Name    string
	Reason  string
	Data    []byte
	Items   []item
	IDs     []uint64
	Roles   []string
	Setting map[string]string
}

func (*all) sampleKind() byte { return 1 }

func (m *all) codeFields(c *wire.Coder) {
	wire.Uvarint(c, &m.Big)
	wire.Uvarint(c, &m.Small)
	wire.U64(c, &m.Signed)
	wire.Bounded(c, "count", &m.Count, 9)
	wire.Capped(c, &m.Hops, 255)
	wire.Capped(c, &m.Within, 1<<62)
	wire.Byte(c, "state", &m.State, 3)
	c.Bool(&m.Yes)
	c.String("name", &m.Name, 8)
	c.Text("reason", &m.Reason, 8)
	c.Bytes("data", &m.Data, 8)
	wire.Slice(c, "items", &m.Items, 4, (*item).codeFields)
	wire.U64s(c, "ids", &m.IDs, 4)
	c.Strings("roles", &m.Roles, 4, 8)
	c.StringMap("settings", &m.Setting, 4, 8, 8)
	c.Check("sum", uint64(len(m.Items)+len(m.IDs)), 6)
}

// versioned has fields that later versions have added, inside a body and at its end.
type versioned struct {
	Term  uint64
	Role  string
	After bool
	Zone  string
}

func (*versioned) sampleKind() byte { return 3 }

func (m *versioned) codeFields(c *wire.Coder) {
	c.Body("order", 200, func(c *wire.Coder) {
		wire.Uvarint(c, &m.Term)
		if c.Added(wire.Newest + 1) {
			c.String("role", &m.Role, 190)
		}
	})
	c.Bool(&m.After)
	if c.Added(wire.Newest + 2) {
		c.String("zone", &m.Zone, 8)
	}
}

var protocol = wire.Messages[sample]{
	Kind: sample.sampleKind, Code: sample.codeFields,
	New: []func() sample{1: func() sample { return new(all) }, 3: func() sample { return new(versioned) }},
}

func full() *all {
	return &all{1 << 63, 1 << 31, -5, 9, 200, 7, 3, true, "name", "reason", []byte("data"),
		[]item{{1, "a"}, {1 << 15, ""}}, []uint64{1, 2}, []string{"a", ""}, map[string]string{"": "x", "b": ""}}
}

func samples() []sample {
	return []sample{full(), &all{Data: []byte{}}, &versioned{Term: 5, After: true}, &versioned{}}
}

func TestOneDescriptionWritesAndReads(t *testing.T) { wiretest.Check(t, &protocol, samples()) }

func TestTheWireIsAsItWas(t *testing.T) {
	wiretest.Golden(t, &protocol, samples())
}

func FuzzMessages(f *testing.F) { wiretest.Fuzz(f, &protocol, samples(), nil) }

func TestBoundsAreChecked(t *testing.T) {
	for name, spoil := range map[string]func(m *all){
		"count":             func(m *all) { m.Count = 10 },
		"negative count":    func(m *all) { m.Count = -1 },
		"state":             func(m *all) { m.State = 4 },
		"name":              func(m *all) { m.Name = "123456789" },
		"data":              func(m *all) { m.Data = make([]byte, 9) },
		"items":             func(m *all) { m.Items = make([]item, 5) },
		"a name of an item": func(m *all) { m.Items[1].Name = "123456789" },
		"ids":               func(m *all) { m.IDs = make([]uint64, 5) },
		"roles":             func(m *all) { m.Roles = make([]string, 5) },
		"a role":            func(m *all) { m.Roles[1] = "123456789" },
		"settings":          func(m *all) { m.Setting = map[string]string{"1": "", "2": "", "3": "", "4": "", "5": ""} },
		"a key":             func(m *all) { m.Setting["123456789"] = "" },
		"a value":           func(m *all) { m.Setting["b"] = "123456789" },
		"what Check says":   func(m *all) { m.Items, m.IDs = make([]item, 3), make([]uint64, 4) },
	} {
		m := full()
		spoil(m)
		var limit *wire.LimitError
		if got, err := protocol.Decode(protocol.Append(nil, m)); !errors.As(err, &limit) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestNumbersThatTheirTypeCannotHold(t *testing.T) {
	c := wire.NewDecoder(wire.AppendUvarint(nil, 1<<32))
	var n uint32
	var limit *wire.LimitError
	if wire.Uvarint(c, &n); !errors.As(c.Err(), &limit) || limit.Max != 1<<32-1 {
		t.Errorf("2^32 is read as %d, %v", n, c.Err())
	}
}

// A text is cut and a negative time is written as none, so that the receiver reads them.
func TestWritingForgivesSomeFields(t *testing.T) {
	m := full()
	m.Reason, m.Within = strings.Repeat("x", 99), -1
	got, err := protocol.Decode(protocol.Append(nil, m))
	if err != nil || got.(*all).Reason != "xxxxxxxx" || got.(*all).Within != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	c := wire.NewDecoder(wire.AppendUvarint(nil, 999))
	var hops uint8
	if wire.Capped(c, &hops, 200); hops != 200 || c.Err() != nil {
		t.Errorf("999 hops are read as %d, %v", hops, c.Err())
	}
}

func TestMapsAreSorted(t *testing.T) {
	for _, keys := range []string{"ba", "aa"} {
		b := wire.AppendUvarint(nil, 2)
		for _, k := range keys {
			b = wire.AppendString(wire.AppendString(b, string(k)), "")
		}
		c := wire.NewDecoder(b)
		var m map[string]string
		if c.StringMap("settings", &m, 9, 9, 9); !errors.Is(c.Err(), wire.ErrUnsorted) {
			t.Errorf("keys %q: %v", keys, c.Err())
		}
	}
}

// Lists whose declared length is a lie take memory in proportion to the frame.
func TestListsGrowWithTheirElements(t *testing.T) {
	frame := wire.AppendUvarint(nil, 1<<20)
	frame = append(frame, make([]byte, 1<<20)...)
	frame[len(frame)/1000] = 0xff // an element that fails
	large := func(p *[512]byte, c *wire.Coder) {
		wire.Byte(c, "byte", &p[0], 1)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var list [][512]byte
	c := wire.NewDecoder(frame)
	wire.Slice(c, "list", &list, wire.NoLimit, large)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*8<<20 || c.Err() == nil || list != nil {
		t.Errorf("%d bytes for a frame of %d, %v", got, len(frame), c.Err())
	}
}

// Each version reads the frames of each other: it skips the fields that it does not have, and
// those that the sender did not have are blank.
func TestVersionsReadEachOther(t *testing.T) {
	as := func(m versioned, version uint16) versioned {
		if version < wire.Newest+1 {
			m.Role = ""
		}
		if version < wire.Newest+2 {
			m.Zone = ""
		}
		return m
	}
	for _, m := range []versioned{{Term: 5, Role: "r", After: true, Zone: "z"}, {Role: strings.Repeat("x", 150), Zone: "z"}, {}} {
		for from := uint16(wire.Newest); from <= wire.Newest+3; from++ {
			for to := uint16(wire.Newest); to <= wire.Newest+3; to++ {
				sender, receiver := protocol, protocol
				sender.Version, receiver.Version = from, to
				got, err := receiver.Decode(sender.Append([]byte(nil), &m))
				if want := as(m, min(from, to)); err != nil || *got.(*versioned) != want {
					t.Errorf("version %d to %d: %+v, %v; want %+v", from, to, got, err, want)
				}
			}
		}
	}
}

func TestBoundsWithinABodyAreChecked(t *testing.T) {
	later := protocol
	later.Version = wire.Newest + 1
	for name, m := range map[string]*versioned{
		"a role that is too long": {Role: strings.Repeat("x", 191)},
		"a body that is too long": {Role: strings.Repeat("x", 210)},
	} {
		var limit *wire.LimitError
		if _, err := later.Decode(later.Append(nil, m)); !errors.As(err, &limit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	frame := later.Append(nil, &versioned{Role: "r"})
	frame[3] = 9 // a role that would reach beyond its body, into the field behind
	if got, err := later.Decode(frame); !errors.Is(err, wire.ErrTruncated) {
		t.Errorf("a field that leaves its body: %+v, %v", got, err)
	}
}

// Other goroutines may read a message that is being written.
func TestWritingChangesNothing(t *testing.T) {
	m, done := full(), make(chan []byte)
	for range 2 {
		go func() { done <- protocol.Append(nil, m) }()
	}
	if a, b := <-done, <-done; string(a) != string(b) {
		t.Error("one message, two frames")
	}
	c := wire.NewEncoder(nil)
	c.Fail(errors.New("none"))
	if c.Check("n", 9, 1); c.Err() != nil || c.Left() != 0 || c.Reading() {
		t.Error("an encoder fails, or reads")
	}
}
