package main

import (
	"fmt"
	"go/types"
	"strings"
)

const (
	maxFiles          = 25
	maxMethods        = 45
	maxExportedTypes  = 180
	maxPublicPackages = 10
	maxUpward         = 20 // percent
)

// upwardLimits are the packages that each hold one Paxos-like node, whose parts refer to
// one another: percent.
var upwardLimits = map[string]int{
	"internal/core/view": 30, "internal/core/replication": 30,
}

// structure returns the figures of files, types and packages.
func structure(m *module) []*measure {
	files := &measure{name: "files", title: "files in a package", limit: maxFiles, goal: "<= 25"}
	upward := &measure{name: "upward", title: "upward references of files, percent", limit: maxUpward, goal: "<= 20 (30)"}
	methods := &measure{name: "methods", title: "methods of a type", limit: maxMethods, goal: "<= 45"}
	leaks := &measure{name: "leaks", title: "exported names with internal types", goal: "0"}
	var exported, public int
	for _, p := range m.packages {
		files.items = append(files.items, item{subject: p.dir, value: len(p.files) + p.excluded})
		refs, up := upwardReferences(m, p)
		if refs > 0 {
			upward.items = append(upward.items, item{subject: p.dir, value: up * 100 / refs, limit: upwardLimits[p.dir],
				where: []string{fmt.Sprintf("%d of %d references", up, refs)}})
		}
		methods.items = append(methods.items, methodCounts(p)...)
		if !p.public() {
			continue
		}
		if n := countExportedTypes(p); n > 0 {
			exported, public = exported+n, public+1
		}
		if names := namesLeaking(p); len(names) > 0 {
			leaks.items = append(leaks.items, item{subject: p.dir, value: len(names), where: names})
		}
	}
	for _, x := range []*measure{files, upward, methods, leaks} {
		x.total = highest(x)
	}
	exportedTypes := &measure{name: "exported-types", title: "exported types of public packages", limit: maxExportedTypes, goal: "<= 180",
		total: fmt.Sprint(exported), items: []item{{subject: "module", value: exported}}}
	publicPackages := &measure{name: "public-packages", title: "public packages with types", limit: maxPublicPackages, goal: "<= 10",
		total: fmt.Sprint(public), items: []item{{subject: "module", value: public}}}
	return []*measure{files, upward, methods, exportedTypes, publicPackages, leaks}
}

// highest returns the greatest value, for the table.
func highest(m *measure) string {
	var top int
	for _, it := range m.items {
		top = max(top, it.value)
	}
	return fmt.Sprintf("up to %d", top)
}

// methodCounts returns the number of methods of each type that the package declares.
func methodCounts(p *pack) []item {
	var items []item
	scope := p.types.Scope()
	for _, name := range scope.Names() {
		if t, ok := scope.Lookup(name).(*types.TypeName); ok && !t.IsAlias() {
			if named, ok := t.Type().(*types.Named); ok {
				items = append(items, item{subject: p.dir + "." + name, value: named.NumMethods()})
			}
		}
	}
	return items
}

// countExportedTypes counts the types that a user of the package can name.
func countExportedTypes(p *pack) int {
	n := 0
	scope := p.types.Scope()
	for _, name := range scope.Names() {
		if t, ok := scope.Lookup(name).(*types.TypeName); ok && t.Exported() {
			n++
		}
	}
	return n
}

// namesLeaking returns the exported names whose declared type names an internal package.
func namesLeaking(p *pack) []string {
	var names []string
	scope := p.types.Scope()
	for _, name := range scope.Names() {
		obj := scope.Lookup(name)
		if !obj.Exported() {
			continue
		}
		for _, sig := range signatures(obj) {
			if internal := internalIn(sig.typ); internal != "" {
				names = append(names, sig.name+": "+internal)
			}
		}
	}
	return names
}

type signature struct {
	name string
	typ  types.Type
}

// signatures returns what a user sees of obj: its type, exported fields and methods.
func signatures(obj types.Object) []signature {
	t, isType := obj.(*types.TypeName)
	if !isType {
		return []signature{{obj.Name(), obj.Type()}}
	}
	if t.IsAlias() {
		return []signature{{t.Name(), types.Unalias(t.Type())}}
	}
	var sigs []signature
	named, ok := t.Type().(*types.Named)
	if !ok {
		return nil
	}
	for _, sel := range methodsOf(named) {
		sigs = append(sigs, signature{t.Name() + "." + sel.Obj().Name(), sel.Type()})
	}
	switch u := named.Underlying().(type) {
	case *types.Struct:
		for _, f := range fieldsOf(u) {
			sigs = append(sigs, signature{t.Name() + "." + f.Name(), f.Type()})
		}
	case *types.Interface:
	default:
		sigs = append(sigs, signature{t.Name(), u})
	}
	return sigs
}

// internalIn returns the first internal type that t names, or "".
func internalIn(t types.Type) string {
	var found string
	types.TypeString(t, func(p *types.Package) string {
		if found == "" && strings.HasPrefix(p.Path(), modulePath) && strings.Contains(p.Path()+"/", "/internal/") {
			found = strings.TrimPrefix(p.Path(), modulePath+"/")
		}
		return p.Path()
	})
	return found
}
