package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// The layout of bbolt's pages: a head of 16 bytes (own number, kind, elements, further
// pages that it takes), elements of 16 bytes, and behind them the elements' keys and
// values, without gaps and in their order. Elements of branches (offset, key, page) lead
// to pages, those of leaves (kind, offset, key, value) to values. The value of a bucket is
// its first page, or, if that is 0, a leaf within the value.
const (
	pageHead     = 16
	elementBytes = 16
	bucketHead   = 16
	branchPage   = 0x01
	leafPage     = 0x02
	freePage     = 0x10
	bucketValue  = 1
	// freeCounted is the count of a free list whose length is its first entry.
	freeCounted = 0xffff
	// noFreelist is the place of a free list that is not in the file.
	noFreelist = 1<<64 - 1
	// depthMax is more than a tree of branches with two elements each can have.
	depthMax = 64
)

// pageWalk visits the pages of a file. Each page has one place in it: in the tree, in the
// free list, or as part of the free list.
type pageWalk struct {
	f      io.ReaderAt
	meta   metaRecord
	placed []bool
	levels [depthMax]pageLevel
}

// pageLevel has the buffers for the pages at one depth of the tree.
type pageLevel struct {
	page     []byte
	elements []element
}

type element struct {
	key, value []byte
	child      uint64
	flags      uint32
}

// checkPages returns an error if pages of the file do not fit together, or if the file is
// shorter than its head declares. It reads each page at most once, and changes nothing. It
// does not check values.
func checkPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	m, sound := readMetas(f)
	switch {
	case sound == 0:
		return errors.New("damaged or not a file of durable keys: neither of its head records is sound")
	case m.pages > uint64(st.Size()/m.pageSize):
		return &damageError{noPage, fmt.Sprintf("truncated: it ends after %d bytes, %d pages of %d bytes belong to it", st.Size(), m.pages, m.pageSize)}
	case sound == 1:
		return damagedPage(1-m.tx%2, "its head record is not sound: the last write is lost without it")
	case m.pages < 4:
		return damagedPage(m.tx%2, "%d pages, in a file of %d bytes", m.pages, st.Size())
	}
	w := &pageWalk{f: f, meta: m, placed: make([]bool, m.pages)}
	w.placed[0], w.placed[1] = true, true
	if err := w.checkTree(m.tx%2, m.root, 0, nil, nil); err != nil {
		return err
	}
	if m.freelist == noFreelist {
		return nil
	}
	if err := w.checkFreelist(); err != nil {
		return err
	}
	if lost := slices.Index(w.placed, false); lost >= 0 {
		return damagedPage(uint64(lost), "neither free nor in use: a page that leads to it was overwritten")
	}
	return nil
}

func damagedPage(id uint64, format string, args ...any) error {
	return &damageError{int64(id), fmt.Sprintf(format, args...)}
}

// placePages notes the place of some pages, to which another page leads.
func (w *pageWalk) placePages(from, id, count uint64) error {
	if id < 2 || id >= w.meta.pages || count > w.meta.pages-id {
		return damagedPage(from, "leads to page %d (of length %d), in a file of %d pages", id, count, w.meta.pages)
	}
	for i := id; i < id+count; i++ {
		if w.placed[i] {
			return damagedPage(from, "leads to page %d, which is also used elsewhere", i)
		}
		w.placed[i] = true
	}
	return nil
}

// readPage reads a page, to which another one leads, into buf.
func (w *pageWalk) readPage(from, id uint64, buf []byte) ([]byte, error) {
	if err := w.placePages(from, id, 1); err != nil {
		return nil, err
	}
	size := int(w.meta.pageSize)
	b := slices.Grow(buf[:0], size)[:size]
	if _, err := w.f.ReadAt(b, int64(id)*w.meta.pageSize); err != nil {
		return nil, damagedPage(id, "cannot be read: %v", err)
	}
	order := binary.NativeEndian
	if own := order.Uint64(b); own != id {
		return nil, damagedPage(id, "its number is that of page %d", own)
	}
	more := uint64(order.Uint32(b[12:]))
	if more == 0 {
		return b, nil
	}
	if err := w.placePages(id, id+1, more); err != nil {
		return nil, err
	}
	b = slices.Grow(b, int(more)*size)[:(1+int(more))*size]
	if _, err := w.f.ReadAt(b[size:], int64(id+1)*w.meta.pageSize); err != nil {
		return nil, damagedPage(id, "cannot be read: %v", err)
	}
	return b, nil
}

// checkTree checks the page, to which another one leads, and those below it. Their keys
// are at least low and less than high, if these are not nil.
func (w *pageWalk) checkTree(from, id uint64, depth int, low, high []byte) error {
	if depth >= depthMax {
		return damagedPage(from, "is %d pages below the first one", depth)
	}
	level := &w.levels[depth]
	b, err := w.readPage(from, id, level.page)
	if err != nil {
		return err
	}
	level.page = b
	kind := binary.NativeEndian.Uint16(b[8:])
	elements, _, err := readElements(id, b, level.elements[:0])
	if err != nil {
		return err
	}
	level.elements = elements
	if len(elements) == 0 && (kind == branchPage || id != w.meta.root) {
		return damagedPage(id, "has no elements")
	}
	if err := checkOrder(id, elements, low, high); err != nil {
		return err
	}
	for i, e := range elements {
		if kind == leafPage {
			err = w.checkValue(id, e, depth)
		} else {
			next := high
			if i+1 < len(elements) {
				next = elements[i+1].key
			}
			err = w.checkTree(id, e.child, depth+1, e.key, next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readElements appends the elements of a branch or a leaf, and returns how many bytes of
// the page are used.
func readElements(id uint64, b []byte, out []element) (_ []element, used int64, err error) {
	order := binary.NativeEndian
	kind, count := order.Uint16(b[8:]), int64(order.Uint16(b[10:]))
	if kind != branchPage && kind != leafPage {
		return nil, 0, damagedPage(id, "is of kind %#x, not a branch or a leaf", kind)
	}
	used = pageHead + count*elementBytes
	if used > int64(len(b)) {
		return nil, 0, damagedPage(id, "declares %d elements, in %d bytes", count, len(b))
	}
	for i := range count {
		at := pageHead + i*elementBytes
		raw := b[at : at+elementBytes]
		var e element
		var pos, key, value int64
		if kind == leafPage {
			e.flags, pos, key, value = order.Uint32(raw), int64(order.Uint32(raw[4:])), int64(order.Uint32(raw[8:])), int64(order.Uint32(raw[12:]))
		} else {
			pos, key, e.child = int64(order.Uint32(raw)), int64(order.Uint32(raw[4:])), order.Uint64(raw[8:])
		}
		switch {
		case at+pos != used:
			return nil, 0, damagedPage(id, "element %d of %d begins at %d, not at %d", i, count, at+pos, used)
		case key == 0 || key+value > int64(len(b))-used:
			return nil, 0, damagedPage(id, "element %d of %d has a key of %d and a value of %d bytes, where %d are left", i, count, key, value, int64(len(b))-used)
		case e.flags > bucketValue:
			return nil, 0, damagedPage(id, "element %d of %d is of kind %#x", i, count, e.flags)
		}
		e.key, e.value = b[used:used+key:used+key], b[used+key:used+key+value:used+key+value]
		used += key + value
		out = append(out, e)
	}
	return out, used, nil
}

func checkOrder(id uint64, elements []element, low, high []byte) error {
	for i, e := range elements {
		if c := bytes.Compare(low, e.key); c > 0 || c == 0 && i > 0 {
			return damagedPage(id, "element %d of %d does not follow the one before it in the order of keys", i, len(elements))
		}
		low = e.key
	}
	if high != nil && len(elements) > 0 && bytes.Compare(low, high) >= 0 {
		return damagedPage(id, "its last key does not come before those of the next page")
	}
	return nil
}

// checkValue checks what is below an element of a leaf: a bucket, or nothing.
func (w *pageWalk) checkValue(id uint64, e element, depth int) error {
	if e.flags != bucketValue {
		return nil
	}
	if len(e.value) < bucketHead {
		return damagedPage(id, "bucket %q has %d bytes", e.key, len(e.value))
	}
	order := binary.NativeEndian
	root, within := order.Uint64(e.value), e.value[bucketHead:]
	switch {
	case root != 0 && len(within) > 0:
		return damagedPage(id, "bucket %q has both a page and %d bytes", e.key, len(within))
	case root != 0:
		return w.checkTree(id, root, depth+1, nil, nil)
	case len(within) < pageHead || order.Uint64(within) != 0 || order.Uint16(within[8:]) != leafPage || order.Uint32(within[12:]) != 0:
		return damagedPage(id, "bucket %q has neither a page nor a leaf of its own", e.key)
	}
	elements, used, err := readElements(id, within, nil)
	if err != nil {
		return err
	}
	if used != int64(len(within)) || slices.ContainsFunc(elements, func(e element) bool { return e.flags != 0 }) {
		return damagedPage(id, "bucket %q has %d bytes, of which %d are used", e.key, len(within), used)
	}
	return checkOrder(id, elements, nil, nil)
}

// checkFreelist checks the list of free pages, which ascends.
func (w *pageWalk) checkFreelist() error {
	id := w.meta.freelist
	b, err := w.readPage(w.meta.tx%2, id, nil)
	if err != nil {
		return err
	}
	order := binary.NativeEndian
	if kind := order.Uint16(b[8:]); kind != freePage {
		return damagedPage(id, "is of kind %#x, not a list of free pages", kind)
	}
	count, list := uint64(order.Uint16(b[10:])), b[pageHead:]
	if count == freeCounted {
		count, list = order.Uint64(list), list[8:]
	}
	if count > uint64(len(list)/8) {
		return damagedPage(id, "declares %d free pages, in %d bytes", count, len(b))
	}
	last := uint64(0)
	for i := range count {
		free := order.Uint64(list[i*8:])
		if free <= last {
			return damagedPage(id, "lists page %d as free behind page %d", free, last)
		}
		if err := w.placePages(id, free, 1); err != nil {
			return err
		}
		last = free
	}
	return nil
}
