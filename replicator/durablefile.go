package replicator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime"
)

// The file is one of bbolt, which maps it into memory and follows the numbers that stand
// in its pages: in a file that was cut, or of which pages are damaged, they lead nowhere.
// Its length is compared with what its own head says before it is opened, and a fault
// while it is read becomes an error.

// A page of bbolt begins with a head of 16 bytes. The first two pages hold one meta record
// each, in the byte order of the machine: magic, version, size of a page, flags, root
// (two words), free list, number of pages, transaction, checksum.
const (
	metaAt    = 16
	metaBytes = 64
	metaMagic = 0xED0CDAED
)

// checkLength returns an error if the file is shorter than its newest meta record says.
// Files without a sound one are left to bbolt, which refuses them.
func checkLength(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	need, newest := int64(0), uint64(0)
	for page, at := int64(os.Getpagesize()), int64(0); at <= page; at += page {
		m, size, ok := readMeta(f, at)
		if !ok {
			continue
		}
		if at == 0 {
			page = size
		}
		if m.tx >= newest {
			newest, need = m.tx, int64(min(m.pages, 1<<40))*size
		}
	}
	if st.Size() < need {
		return fmt.Errorf("damaged: truncated: it ends after %d bytes, %d belong to it: restore the file, or remove it to be filled by the other members", st.Size(), need)
	}
	return nil
}

type metaRecord struct{ pages, tx uint64 }

// readMeta reads the meta record of the page at an offset, and the size of a page.
func readMeta(f io.ReaderAt, at int64) (m metaRecord, page int64, ok bool) {
	var b [metaBytes]byte
	if _, err := f.ReadAt(b[:], at+metaAt); err != nil {
		return m, 0, false
	}
	sum := fnv.New64a()
	sum.Write(b[:metaBytes-8])
	order := binary.NativeEndian
	page = int64(order.Uint32(b[8:]))
	if order.Uint32(b[:]) != metaMagic || order.Uint64(b[metaBytes-8:]) != sum.Sum64() || page < 512 || page > 1<<16 {
		return m, 0, false
	}
	return metaRecord{pages: order.Uint64(b[40:]), tx: order.Uint64(b[48:])}, page, true
}

// damage says what a panic of bbolt over a damaged file means.
func damage(x any) error {
	switch x := x.(type) {
	case interface{ Addr() uintptr }:
		return errors.New("damaged: a page of it cannot be read: the file was cut, or its disk fails")
	case runtime.Error:
		return errors.New("damaged: its pages contradict each other")
	default:
		return fmt.Errorf("damaged: %v", x)
	}
}
