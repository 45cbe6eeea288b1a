package main

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// event is one line of the stream: at some second, an entity gained and lost lines.
type event struct {
	entity         string
	added, deleted int64
}

// totals is what an entity adds up to.
type totals struct {
	Events, Added, Deleted int64
}

func (t *totals) addEvent(e event) {
	t.Events++
	t.Added += e.added
	t.Deleted += e.deleted
}

// readFile reads a stream of events; a name that ends in .gz is unpacked.
func readFile(path string) ([]event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		gz, err := gzip.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		defer gz.Close()
		r = gz
	}
	events, err := readEvents(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return events, nil
}

// readEvents reads `unix_seconds,entity,added,deleted` with or without that header.
func readEvents(r io.Reader) ([]event, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord = 4
	c.ReuseRecord = true
	var events []event
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		if row[0] == "unix_seconds" {
			continue
		}
		e, err := parse(row)
		if err != nil {
			line, _ := c.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		events = append(events, e)
	}
}

func parse(row []string) (event, error) {
	if _, err := strconv.ParseInt(row[0], 10, 64); err != nil {
		return event{}, fmt.Errorf("unix_seconds: %w", err)
	}
	if row[1] == "" {
		return event{}, errors.New("entity is empty")
	}
	added, err := strconv.ParseInt(row[2], 10, 64)
	if err != nil {
		return event{}, fmt.Errorf("added: %w", err)
	}
	deleted, err := strconv.ParseInt(row[3], 10, 64)
	if err != nil {
		return event{}, fmt.Errorf("deleted: %w", err)
	}
	return event{strings.Clone(row[1]), added, deleted}, nil
}

// straight adds the events up in one pass: what the cluster must arrive at.
func straight(events []event) map[string]totals {
	sum := map[string]totals{}
	for _, e := range events {
		t := sum[e.entity]
		t.addEvent(e)
		sum[e.entity] = t
	}
	return sum
}
