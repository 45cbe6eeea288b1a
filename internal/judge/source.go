package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// source yields all records of a run, as often as it is asked.
type source interface {
	each(use func(record) error) error
	// name returns the name of a file, for messages.
	name(file uint16) string
}

// directory is a source that reads the files of a directory, record by record.
type directory struct {
	path  string
	files []string
}

// openDirectory finds the histories in a directory.
func openDirectory(path string) (*directory, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	d := &directory{path: path}
	for _, e := range entries { // sorted by name
		if filepath.Ext(e.Name()) == ".history" {
			d.files = append(d.files, e.Name())
		}
	}
	switch {
	case len(d.files) == 0:
		return nil, fmt.Errorf("%s has no file *.history: it is no directory that `peerage chaos --keep` wrote", path)
	case len(d.files) > math.MaxUint16:
		return nil, fmt.Errorf("%s has %d files *.history, want at most %d", path, len(d.files), math.MaxUint16)
	}
	return d, nil
}

func (d *directory) name(file uint16) string { return d.files[file] }

func (d *directory) each(use func(record) error) error {
	for i := range d.files {
		if err := d.eachOf(uint16(i), use); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) eachOf(file uint16, use func(record) error) error {
	f, err := os.Open(filepath.Join(d.path, d.files[file]))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := readRecords(f, file, use); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// readRecords reads the records of one file. The end of a process may have cut the last one off.
func readRecords(from io.Reader, file uint16, use func(record) error) error {
	in := bufio.NewReaderSize(from, 1<<18)
	var b [recordSize]byte
	for number := uint32(0); ; number++ {
		switch _, err := io.ReadFull(in, b[:]); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
		r, err := parseRecord(b[:])
		if err != nil {
			return fmt.Errorf("record %d (byte %d): %w", number, int64(number)*recordSize, err)
		}
		if number == math.MaxUint32 {
			return fmt.Errorf("more than %d records", number)
		}
		r.file, r.number = file, number
		if err := use(r); err != nil {
			return err
		}
	}
}

// subject is what a record is about: records of different subjects are judged apart.
type subject struct {
	space  byte
	sender uint64
	number uint32
}

// The spaces of subjects. A counter and a register of one number are in one space.
const (
	ofEntity byte = iota
	ofEntry
	ofElement
	ofNone // figures alone
)

func subjectOf(r record) subject {
	switch r.kind {
	case appended, readBack:
		return subject{ofEntry, r.sender, r.entity}
	case added, contained:
		return subject{ofElement, r.sender, r.entity}
	case suspected, excluded, created:
		return subject{space: ofNone}
	}
	return subject{ofEntity, 0, r.entity}
}

// slotOf returns one of slots places for a subject.
func (s subject) slotOf() int {
	h := (s.sender ^ uint64(s.number)<<8 ^ uint64(s.space)) * 0x9e3779b97f4a7c15
	return int(h >> (64 - slotBits))
}

const (
	slotBits = 12
	slots    = 1 << slotBits
)

// limits bound the memory of a judge, in records of 88 bytes.
type limits struct {
	// batch is how many records are held at a time, unless those of one slot are more.
	batch int
	// slot is how many records may share a slot.
	slot int
}

var defaultLimits = limits{batch: 1 << 18, slot: 1 << 22}

// batches divides the slots into groups whose records fit into the memory.
func batches(src source, l limits) ([][]int, error) {
	var sizes [slots]int
	err := src.each(func(r record) error {
		if s := subjectOf(r); s.space != ofNone {
			sizes[s.slotOf()]++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out [][]int
	room := 0
	for slot, size := range sizes {
		switch {
		case size == 0:
			continue
		case size > l.slot:
			return nil, fmt.Errorf("%d records are about one counter, want at most %d: judge a shorter run", size, l.slot)
		case size > room || len(out) == 0:
			out, room = append(out, nil), l.batch
		}
		out[len(out)-1] = append(out[len(out)-1], slot)
		room -= size
	}
	return out, nil
}

// bySubject calls use for each subject, with its records in the order of their start. It reads
// the source once for each batch.
func bySubject(src source, groups [][]int, use func(subject, []record)) error {
	for _, group := range groups {
		var wanted [slots]bool
		for _, slot := range group {
			wanted[slot] = true
		}
		held := map[subject][]record{}
		err := src.each(func(r record) error {
			if s := subjectOf(r); s.space != ofNone && wanted[s.slotOf()] {
				held[s] = append(held[s], r)
			}
			return nil
		})
		if err != nil {
			return err
		}
		subjects := make([]subject, 0, len(held))
		for s := range held {
			subjects = append(subjects, s)
		}
		slices.SortFunc(subjects, compareSubjects)
		for _, s := range subjects {
			slices.SortFunc(held[s], compareStarts)
			use(s, held[s])
			delete(held, s)
		}
	}
	return nil
}

func compareSubjects(a, b subject) int {
	return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.sender, b.sender), cmp.Compare(a.number, b.number))
}
