package replica

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"runtime"
)

// The file is one of bbolt, which maps it into memory and follows the numbers that stand
// in its pages: in a file that was cut, or of which pages are damaged, they lead nowhere.
// Its length is compared with the one in its head, and each of its pages is checked
// (durablepages.go), before it is opened. A fault while it is read becomes an error.
//
// Each transaction ends with its meta record, in turns in the first and in the second page.
// If one of the two records is damaged, bbolt takes the other one: the state before the last
// transaction, perhaps, although that one was acknowledged. So one damaged record is an
// error. A loss of power does not damage it: it lies within one sector, which disks write
// whole or not at all, and the record before is whole.

// A page of bbolt begins with a head of 16 bytes. The first two pages hold one meta record
// each, in the byte order of the machine: magic, version, size of a page, flags, root
// (two words), free list, number of pages, transaction, checksum.
const (
	metaAt      = 16
	metaBytes   = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	pageSizeMax = 1 << 16
)

// metaRecord is a sound meta record. The pages that it counts include itself.
type metaRecord struct {
	pageSize                  int64
	root, freelist, pages, tx uint64
}

// readMetas returns the sound meta record of the newest transaction, which is the one that
// bbolt takes, and how many of the two are sound. The second one follows the first page,
// whose size is unknown if the first one is damaged.
func readMetas(f io.ReaderAt) (newest metaRecord, sound int) {
	newest, first := readMeta(f, 0)
	for size := int64(1 << 10); size <= pageSizeMax; size *= 2 {
		if first && size != newest.pageSize {
			continue
		}
		m, ok := readMeta(f, size)
		switch {
		case !ok || m.pageSize != size:
		case !first:
			return m, 1
		case m.tx > newest.tx:
			return m, 2
		default:
			return newest, 2
		}
	}
	if !first {
		return newest, 0
	}
	return newest, 1
}

// readMeta reads the meta record of the page at an offset.
func readMeta(f io.ReaderAt, at int64) (m metaRecord, ok bool) {
	var b [metaBytes]byte
	if _, err := f.ReadAt(b[:], at+metaAt); err != nil {
		return m, false
	}
	sum := fnv.New64a()
	sum.Write(b[:metaBytes-8])
	order := binary.NativeEndian
	m = metaRecord{pageSize: int64(order.Uint32(b[8:])), root: order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]), pages: order.Uint64(b[40:]), tx: order.Uint64(b[48:])}
	if order.Uint32(b[:]) != metaMagic || order.Uint32(b[4:]) != metaVersion || order.Uint64(b[metaBytes-8:]) != sum.Sum64() ||
		m.pageSize < 1<<10 || m.pageSize > pageSizeMax || m.pageSize&(m.pageSize-1) != 0 {
		return m, false
	}
	return m, true
}

// noPage is the page of a damageError that concerns no page of the file.
const noPage = -1

// damageError reports that a file is damaged, and what the operator does.
type damageError struct {
	page int64
	what string
}

func (e *damageError) Error() string {
	at := ""
	if e.page != noPage {
		at = fmt.Sprintf("page %d: ", e.page)
	}
	return fmt.Sprintf("damaged: %s%s: restore the file from a copy, or move it aside and start again: the other members then fill this node", at, e.what)
}

// damage translates a panic of bbolt over a damaged file.
func damage(x any) error {
	switch x := x.(type) {
	case interface{ Addr() uintptr }:
		return &damageError{noPage, "a page of it cannot be read: the file was cut, or its disk fails"}
	case runtime.Error:
		return &damageError{noPage, "its pages contradict each other"}
	default:
		return &damageError{noPage, fmt.Sprint(x)}
	}
}
