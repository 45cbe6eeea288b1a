package page

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"strings"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
)

//go:embed series.html
var seriesHTML string

// seriesView is what the template of a series shows.
type seriesView struct {
	Verdict, Mark string
	CSS           template.CSS
	JSON          template.JS
	Runs          []seriesRun
	Promises      []seriesPromise
	Figures       []seriesFigure
}

type seriesRun struct{ Label, Verdict, Mark, Load, Seed string }

// seriesPromise is a row of the table of promises; a mark is that of the cell's verdict.
type seriesPromise struct {
	Name  string
	Cells []struct{ Text, Verdict, Mark string }
}

// seriesFigure is a row of the table, with its bars: the widths are percent of the largest value.
type seriesFigure struct {
	Name  string
	Cells []seriesCell
}

type seriesCell struct {
	Text  string
	Width float64
}

// SaveSeries writes the page of a series of runs to a file.
func SaveSeries(file string, s *chaos.Series) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	v := &seriesView{Verdict: s.Verdict(), Mark: signOf(s.Verdict()), CSS: template.CSS(pageCSS), JSON: template.JS(raw)}
	for i := range s.Runs {
		r := &s.Runs[i]
		v.Runs = append(v.Runs, seriesRun{r.Label(), r.Verdict, signOf(r.Verdict), grouped(int(r.Load)), fmt.Sprint(r.Seed)})
	}
	for _, p := range s.Promises {
		row := seriesPromise{Name: p.Name}
		for _, verdict := range p.Verdicts {
			cell := struct{ Text, Verdict, Mark string }{Text: verdict.String()}
			if verdict != nil {
				cell.Verdict, cell.Mark = verdict.Verdict, signOf(verdict.Verdict)
			}
			row.Cells = append(row.Cells, cell)
		}
		v.Promises = append(v.Promises, row)
	}
	for _, f := range s.Figures {
		v.Figures = append(v.Figures, newSeriesFigure(&f))
	}
	t, err := template.New("series").Parse(seriesHTML)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, v); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o666)
}

func newSeriesFigure(f *chaos.SeriesFigure) seriesFigure {
	out, most := seriesFigure{Name: f.Name}, 0.0
	for _, value := range f.Values {
		if value != nil {
			most = max(most, *value)
		}
	}
	for _, value := range f.Values {
		cell := seriesCell{Text: "–"}
		if value != nil {
			cell.Text = inUnit(*value, f.Unit)
			cell.Width = *value / max(most, 1e-9) * 100
		}
		out.Cells = append(out.Cells, cell)
	}
	return out
}

// inUnit formats a figure in its unit.
func inUnit(value float64, unit string) string {
	switch unit {
	case chaos.UnitPercent:
		return fmt.Sprintf("%.1f %%", value)
	case chaos.UnitBytes:
		return bytesOf(value)
	case chaos.UnitRate:
		return grouped(int(value)) + "/s"
	}
	return harness.FormatMillis(value)
}
