package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	rulesFile     = "deploy/prometheus/peerage.rules.yml"
	rulesTestFile = "deploy/prometheus/peerage.rules.test.yml"
)

// An alert on a metric that no node exports never fires.
func TestRulesUseMetricsOfTheCatalogue(t *testing.T) {
	rules, catalogue := readTree(t, rulesFile), readTree(t, "docs/METRICS.md")
	used := regexp.MustCompile(`\bpeerage_[a-z_]+`).FindAllString(rules, -1)
	if len(used) < 20 {
		t.Fatalf("%d metrics found in %s", len(used), rulesFile)
	}
	for _, name := range used {
		listed := func(name string) bool { return strings.Contains(catalogue, "| `"+name+"` |") }
		histogram := strings.TrimSuffix(name, "_bucket")
		recorded := strings.Contains(rules, "record: job_type:"+name+":") || strings.Contains(rules, "record: job_type_le:"+name+":")
		if !listed(name) && !listed(histogram) && !recorded {
			t.Errorf("%s uses %s, which docs/METRICS.md does not list", rulesFile, name)
		}
		if regexp.MustCompile("(?m)^\\| `" + name + "` .*From the first event\\.").MatchString(catalogue) {
			t.Errorf("%s uses %s, which has no series before its first event: increase() would miss that", rulesFile, name)
		}
	}
}

func TestEveryAlertIsTestedAndDescribed(t *testing.T) {
	rules, tests, page := readTree(t, rulesFile), readTree(t, rulesTestFile), readTree(t, "docs/ALERTS.md")
	alerts := regexp.MustCompile(`(?s)- alert: (\w+)\n.*?severity: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) < 20 {
		t.Fatalf("%d alerts found in %s", len(alerts), rulesFile)
	}
	for _, a := range alerts {
		name, severity := a[1], a[2]
		if !strings.Contains(tests, "- {alertname: "+name+", eval_time:") {
			t.Errorf("no test shows %s quiet", name)
		}
		if !regexp.MustCompile(`- alertname: ` + name + `\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels:`).MatchString(tests) {
			t.Errorf("no test shows %s firing", name)
		}
		if !strings.Contains(page, "| `"+name+"` | "+severity+" |") {
			t.Errorf("docs/ALERTS.md has no row of %s with severity %s", name, severity)
		}
	}
	if rows := strings.Count(page, "\n| `Peerage"); rows != len(alerts) {
		t.Errorf("docs/ALERTS.md has %d rows, %s has %d alerts", rows, rulesFile, len(alerts))
	}
}

func readTree(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
