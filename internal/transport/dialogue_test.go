package transport

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
)

// dialogue is a sealed connection in one goroutine, with an attacker on its path. Each write is
// one message, with which the attacker does what the next three bytes of the script say.
type dialogue struct {
	script []byte
	// sent are the messages of the dialler and of the acceptor, those of an earlier dialogue first.
	sent [2][][]byte
	// waiting are the bytes on their way to the dialler and to the acceptor.
	waiting [2][]byte
	// altered is set once the attacker has done anything but deliver.
	altered bool
	// respond runs the acceptor when the dialler waits for it.
	respond func()
}

// tappedEnd is one end of a dialogue. Its reads end at what has arrived.
type tappedEnd struct {
	net.Conn
	d  *dialogue
	at int
}

func (s tappedEnd) Write(b []byte) (int, error) {
	s.d.passOn(s.at, b)
	return len(b), nil
}

func (s tappedEnd) Read(b []byte) (int, error) {
	if len(s.d.waiting[s.at]) == 0 && s.at == 0 && s.d.respond != nil {
		respond := s.d.respond
		s.d.respond = nil
		respond()
	}
	if len(s.d.waiting[s.at]) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.d.waiting[s.at])
	s.d.waiting[s.at] = s.d.waiting[s.at][n:]
	return n, nil
}

func (d *dialogue) nextByte() (n int) {
	if len(d.script) > 0 {
		n, d.script = int(d.script[0]), d.script[1:]
	}
	return n
}

func (d *dialogue) passOn(from int, b []byte) {
	b = slices.Clone(b)
	d.sent[from] = append(d.sent[from], b)
	kind, n, bit := d.nextByte()%8, d.nextByte(), d.nextByte()
	d.altered = d.altered || kind != 0
	to := &d.waiting[1-from]
	switch kind {
	case 1: // lost
	case 2: // twice
		*to = append(append(*to, b...), b...)
	case 3: // a bit is flipped
		changed := slices.Clone(b)
		changed[n%len(b)] ^= 1 << (bit % 8)
		*to = append(*to, changed...)
	case 4: // an earlier message instead, maybe of another connection
		*to = append(*to, d.sent[from][n%len(d.sent[from])]...)
	case 5: // reflected to its sender, too
		d.waiting[from] = append(d.waiting[from], b...)
		*to = append(*to, b...)
	case 6: // cut off
		*to = append(*to, b[:n%len(b)]...)
	case 7: // a message of the far end instead
		if theirs := d.sent[1-from]; len(theirs) > 0 {
			*to = append(*to, theirs[n%len(theirs)]...)
		}
	default:
		*to = append(*to, b...)
	}
}

// playAll runs a whole dialogue. It returns what each side wrote behind the handshake, and what the
// other one has read of that.
func (d *dialogue) playAll(secret []byte) (wrote, read [2][]byte, err [2]error) {
	conns := [2]*sealedConn{
		{Conn: tappedEnd{d: d, at: 0}, secrets: [][]byte{secret}, dialled: true},
		{Conn: tappedEnd{d: d, at: 1}, secrets: [][]byte{bytes.Repeat([]byte{7}, secretBytesMin), secret}},
	}
	d.respond = func() { err[1] = conns[1].handshake() }
	if err[0] = conns[0].handshake(); d.respond != nil {
		d.respond()
	}
	for i := range 6 {
		from := i % 2
		if err[from] != nil {
			continue
		}
		b := bytes.Repeat([]byte{byte(i + 1)}, 1+i*i)
		wrote[from] = append(wrote[from], b...)
		if _, werr := conns[from].Write(b); werr != nil {
			err[from] = werr
		}
	}
	for at, c := range conns {
		if err[at] == nil {
			read[1-at], err[at] = io.ReadAll(c)
		}
	}
	return wrote, read, err
}

// FuzzSealedDialogue lets an attacker lose, repeat, change, replay, reflect and cut off the
// messages of a connection with a shared secret. Each side reads what the other wrote, from the
// first byte on and in order, or less of it, and never anything else.
func FuzzSealedDialogue(f *testing.F) {
	f.Add([]byte{})
	for kind := byte(1); kind < 8; kind++ {
		for at := range 5 {
			f.Add(append(make([]byte, 3*at), kind, byte(at), 5))
		}
	}
	secret := bytes.Repeat([]byte{42}, secretBytesMin)
	var earlier dialogue
	if _, _, err := earlier.playAll(secret); err != [2]error{} {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		d := &dialogue{script: script, sent: [2][][]byte{slices.Clone(earlier.sent[0]), slices.Clone(earlier.sent[1])}}
		wrote, read, err := d.playAll(secret)
		for from, name := range []string{"dialler", "acceptor"} {
			if !bytes.HasPrefix(wrote[from], read[from]) {
				t.Errorf("the %s wrote %x, and %x was read", name, wrote[from], read[from])
			}
			if !d.altered && (err != [2]error{} || !bytes.Equal(wrote[from], read[from])) {
				t.Errorf("without an attack: %s, %d of %d bytes", fmt.Sprint(err), len(read[from]), len(wrote[from]))
			}
		}
	})
}
