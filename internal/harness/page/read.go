package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/peerage-go/peerage/internal/harness/chaos"
)

// begin and end surround the report in JSON in a page.
var (
	begin = []byte(`<script type="application/json" id="report">`)
	end   = []byte(`</script>`)
)

// Read reads a report from a file of JSON or from a page. It fails for a schema that this
// version does not read.
func Read(file string) (*chaos.Report, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if _, after, found := bytes.Cut(b, begin); found {
		b, _, _ = bytes.Cut(after, end)
	}
	r := &chaos.Report{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s is no report of chaos: %w", file, err)
	}
	if r.Schema != chaos.SchemaVersion {
		return nil, fmt.Errorf("%s has schema %d; this version of peerage reads schema %d", file, r.Schema, chaos.SchemaVersion)
	}
	return r, nil
}
