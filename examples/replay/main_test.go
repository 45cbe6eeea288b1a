package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/peeragetest"
)

// TestMain lets the test binary stand in for the program, which starts its own
// executable again as further members.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--member-of" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTotalsThroughThreeProcessesAreEqual(t *testing.T) {
	var out bytes.Buffer
	if err := replayFile(nil, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"600 events on 23 entities through 3 processes", "all totals are equal"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("does not say %q:\n%s", want, out.String())
		}
	}
}

// The same in one process and virtual time, on a slow network: each node finds all totals.
func TestTotalsFromEachNodeAreEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, processes, joinCluster)
		events, err := loadEvents("")
		if err != nil {
			t.Fatal(err)
		}
		c.Node("b").Slow(5 * time.Millisecond)
		if err := sendEvents(t.Context(), c.Node("a").Service, events); err != nil {
			t.Fatal(err)
		}
		for _, n := range c.Nodes() {
			var out bytes.Buffer
			if wrong, err := compare(t.Context(), n.Service, straight(events), &out); err != nil || wrong > 0 {
				t.Errorf("node %s: %d wrong, %v\n%s", n.Name, wrong, err, &out)
			}
		}
		c.AssertSingleInstance()
	})
}

func TestStreamsAreReadWithAndWithoutHeaderAndPacked(t *testing.T) {
	const rows = "1,a/b.go,3,1\n2,\"c,d\",0,5\n3,a/b.go,10,0\n"
	for name, text := range map[string]string{"plain": rows, "header": "unix_seconds,entity,added,deleted\n" + rows} {
		path := filepath.Join(t.TempDir(), name+".csv.gz")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		gz := gzip.NewWriter(f)
		if _, err := gz.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := gz.Close(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		events, err := readFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := straight(events)
		if len(got) != 2 || got["a/b.go"] != (totals{2, 13, 1}) || got["c,d"] != (totals{1, 0, 5}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDamagedStreamsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"1,a,2,3\n2,b,x,3\n":  "line 2: added",
		"1,a,2,3\n\n2,b,1,\n": "line 3: deleted",
		"1,,2,3\n":            "line 1: entity is empty",
		"soon,a,2,3\n":        "line 1: unix_seconds",
		"1,a,2\n":             "wrong number of fields",
	} {
		if _, err := readEvents(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
