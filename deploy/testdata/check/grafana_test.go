package check

import (
	"bytes"
	"os"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// TestTheDashboardIsOneOfGrafana checks that Grafana's own types read the dashboard: fields that
// Grafana does not know, and panels that lack a field which it requires, are errors.
func TestTheDashboardIsOneOfGrafana(t *testing.T) {
	text, err := os.ReadFile("../../grafana/peerage.json")
	if err != nil {
		t.Fatal(err)
	}
	plugins.RegisterDefaultPlugins()
	// A variable without a choice takes its first value. Grafana exports it as {}, and its
	// types want the choice then.
	text = bytes.ReplaceAll(text, []byte(`"current": {}`), []byte(`"current": {"text": "", "value": ""}`))
	var d dashboard.Dashboard
	if err := d.UnmarshalJSONStrict(text); err != nil && err.Error() != "" { // an empty list of errors is not nil
		t.Error(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if len(d.Panels) < 10 {
		t.Errorf("only %d panels were read", len(d.Panels))
	}
}
