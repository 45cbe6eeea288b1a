package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// turn is a turn of speech that plain English does without, and the rate that is
// tolerated over the whole module.
type turn struct {
	name, title string
	pattern     *regexp.Regexp
	perMille    float64 // per 1,000 words
	// questions is set if sentences that end with a question mark count, too.
	questions bool
}

var turns = []turn{
	{"openings", "sentences that open with Who, What", regexp.MustCompile(`(?:^|[.:;!?]\s+)(?:Who|Whoever|What|Whatever)\s+[a-z]`), 0.05, false},
	{"persons", "nobody, somebody, others, ...", regexp.MustCompile(`(?i)\b(?:nobody|somebody|everybody|anybody|others|whoever)\b`), 0.3, true},
	{"at-once", `"at once"`, regexp.MustCompile(`(?i)\bat once\b`), 0.05, true},
	{"speech", "messages that say, hear, know", regexp.MustCompile(`\b(?:said|told|says|say|hears|heard|hear|knows|known|knew|know)\b`), 0.95, true},
	{"retired-words", "any more, no more, as good as", regexp.MustCompile(`(?i)\b(?:any more|no more|as good as|is to be|are to be)\b`), 0.05, true},
}

// prose is a text that people read.
type prose struct {
	subject string // the directory of code, or the page
	where   string
	text    string
}

// language returns the figures of comments, messages, pages and names.
func language(m *module) []*measure {
	texts := append(append(comments(m), messages(m)...), pageTexts(m)...)
	words := 0
	for _, t := range texts {
		words += len(strings.Fields(t.text))
	}
	var out []*measure
	for _, t := range turns {
		out = append(out, t.measure(texts, words))
	}
	out = append(out, citations(m, texts))
	return append(out, functionNames(m)...)
}

func (t turn) measure(texts []prose, words int) *measure {
	ms := &measure{name: t.name, title: t.title, goal: fmt.Sprintf("<= %v", t.perMille)}
	found := map[string][]string{}
	total := 0
	for _, p := range texts {
		for _, at := range t.pattern.FindAllStringIndex(p.text, -1) {
			if !t.questions && isQuestion(p.text[at[1]:]) {
				continue
			}
			found[p.subject] = append(found[p.subject], p.where)
			total++
		}
	}
	for subject, where := range found {
		ms.items = append(ms.items, item{subject: subject, value: len(where), where: where})
	}
	rate := 1000 * float64(total) / float64(max(words, 1))
	ms.total = fmt.Sprintf("%.2f (%d)", rate, total)
	ms.met = rate <= t.perMille
	return ms
}

// isQuestion reports whether a sentence, of which rest is the end, asks something.
func isQuestion(rest string) bool {
	end := strings.IndexAny(rest, ".!?")
	return end >= 0 && rest[end] == '?'
}

// comments returns the comments of the code.
func comments(m *module) []prose {
	var all []prose
	for _, p := range m.packages {
		for _, f := range p.files {
			for _, g := range f.ast.Comments {
				all = append(all, prose{p.dir, fmt.Sprintf("%s:%d", f.path, m.fset.Position(g.Pos()).Line),
					strings.Join(strings.Fields(g.Text()), " ")})
			}
		}
	}
	return all
}

// messages returns the texts of the code with three words or more: logs, errors, the help
// of metrics and commands. This package's own texts name what they look for.
func messages(m *module) []prose {
	var all []prose
	for _, p := range m.packages {
		if p.dir == "internal/lint/house" {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if err == nil && len(strings.Fields(text)) >= 3 {
					all = append(all, prose{p.dir, fmt.Sprintf("%s:%d", f.path, m.fset.Position(lit.Pos()).Line), text})
				}
				return true
			})
		}
	}
	return all
}

var codeBlock = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// pageTexts returns the paragraphs and table rows of the pages, without code.
func pageTexts(m *module) []prose {
	var all []prose
	for _, p := range m.pages {
		text := codeBlock.ReplaceAllStringFunc(p.text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
		var paragraph []string
		for i, line := range strings.Split(text+"\n", "\n") {
			line = strings.TrimSpace(line)
			if len(paragraph) > 0 && (line == "" || startsText.MatchString(line)) {
				first := i - len(paragraph) + 1
				all = append(all, prose{p.path, fmt.Sprintf("%s:%d", p.path, first), strings.Join(paragraph, " ")})
				paragraph = nil
			}
			if line != "" {
				paragraph = append(paragraph, line)
			}
		}
	}
	return all
}

// startsText matches lines that do not go on with the paragraph above: rows, items, titles.
var startsText = regexp.MustCompile(`^(?:\||[-*] |\d+\. |#)`)

// cited finds references to pages and sections of pages. A capital name followed by a
// number is a section of a page that is cited by name only.
var cited = regexp.MustCompile(`\b[A-Z]{4,}(?: (?:section )?\d+(?:\.\d+)*\b)|\b[\w/-]+\.(?:md|go)\b`)

// notSections are words in capitals with numbers behind them that name no page.
var notSections = map[string]bool{"HTTP": true, "SIGKILL": true, "ICMP": true, "IPPROTO": true, "ICMPV": true, "UTF": true, "POSIX": true, "POST": true}

// citations returns the references in comments to what the tree does not hold.
func citations(m *module, texts []prose) *measure {
	ms := &measure{name: "citations", title: "comments that cite what is not here", goal: "0"}
	bases := map[string]bool{}
	for p := range m.paths {
		bases[path.Base(p)] = true
		bases[strings.TrimSuffix(path.Base(p), path.Ext(p))] = true
	}
	found := map[string][]string{}
	total := 0
	for _, t := range texts {
		for _, c := range cited.FindAllString(t.text, -1) {
			name, _, _ := strings.Cut(c, " ")
			if bases[path.Base(name)] || notSections[name] || strings.HasSuffix(t.subject, ".md") {
				continue
			}
			found[t.subject] = append(found[t.subject], t.where+": "+c)
			total++
		}
	}
	for s, where := range found {
		ms.items = append(ms.items, item{subject: s, value: len(where), where: where})
	}
	ms.total = fmt.Sprint(total)
	return ms
}
