package main

import (
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// apiFile holds the exported API, relative to the module's root.
const apiFile = "docs/api.txt"

const apiHead = "# The exported API: one line a declaration. A test compares it with the code; after a\n" +
	"# change that is meant: go run ./internal/lint/house -api\n"

// api returns one line for each exported declaration of the public packages: functions,
// variables, constants, types, and the exported fields and methods of types.
func api(m *module) string {
	var lines []string
	for _, p := range m.packages {
		if !p.public() {
			continue
		}
		scope := p.types.Scope()
		for _, name := range scope.Names() {
			if obj := scope.Lookup(name); obj.Exported() {
				lines = append(lines, declaration(p, obj)...)
			}
		}
	}
	slices.Sort(lines)
	return apiHead + strings.ReplaceAll(strings.Join(lines, ""), modulePath+"/", "")
}

// declaration returns the lines of one exported object of package p.
func declaration(p *pack, obj types.Object) []string {
	prefix := p.types.Path() + ": "
	line := func(format string, args ...any) string { return prefix + fmt.Sprintf(format, args...) + "\n" }
	short := types.RelativeTo(p.types)
	tn, ok := obj.(*types.TypeName)
	if !ok {
		if c, ok := obj.(*types.Const); ok {
			return []string{line("const %s = %s", types.TypeString(c.Type(), short)+" "+c.Name(), c.Val())}
		}
		return []string{line("%s", types.ObjectString(obj, short))}
	}
	if tn.IsAlias() {
		return []string{line("type %s = %s", tn.Name(), types.TypeString(types.Unalias(tn.Type()), short))}
	}
	named, ok := tn.Type().(*types.Named)
	if !ok {
		return []string{line("%s", types.ObjectString(obj, short))}
	}
	lines := []string{line("type %s %s", types.TypeString(named, short), kindOf(named.Underlying(), short))}
	for _, f := range fieldsOf(named.Underlying()) {
		lines = append(lines, line("type %s struct, %s %s", tn.Name(), f.Name(), types.TypeString(f.Type(), short)))
	}
	for _, sel := range methodsOf(named) {
		sig := strings.TrimPrefix(types.TypeString(sel.Type(), short), "func")
		lines = append(lines, line("method %s.%s%s", tn.Name(), sel.Obj().Name(), sig))
	}
	return lines
}

// kindOf describes an underlying type. Fields and methods have lines of their own, unless
// they are unexported and keep other packages from writing the type.
func kindOf(t types.Type, short types.Qualifier) string {
	switch u := t.(type) {
	case *types.Struct:
		if len(fieldsOf(u)) < u.NumFields() {
			return "struct with unexported fields"
		}
		return "struct"
	case *types.Interface:
		for f := range u.Methods() {
			if !f.Exported() {
				return "interface with unexported methods"
			}
		}
		return "interface"
	}
	return types.TypeString(t, short)
}

// fieldsOf returns the exported fields of a struct, and none of another type.
func fieldsOf(t types.Type) []*types.Var {
	var out []*types.Var
	if s, ok := t.(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Exported() {
				out = append(out, f)
			}
		}
	}
	return out
}

// methodsOf returns the exported methods of a pointer to t, and of t if it is an interface.
func methodsOf(t *types.Named) []*types.Selection {
	var of types.Type = types.NewPointer(t)
	if types.IsInterface(t) {
		of = t
	}
	var out []*types.Selection
	for sel := range types.NewMethodSet(of).Methods() {
		if sel.Obj().Exported() {
			out = append(out, sel)
		}
	}
	return out
}

// checkAPI returns a sentence for each line that docs/api.txt lacks, or that the code does
// not have.
func checkAPI(m *module) []string {
	stored, err := os.ReadFile(filepath.Join(m.root, apiFile))
	if err != nil {
		return []string{err.Error()}
	}
	return compareAPI(string(stored), api(m))
}

func compareAPI(stored, now string) []string {
	count := map[string]int{}
	for l := range strings.Lines(now) {
		count[l]++
	}
	for l := range strings.Lines(stored) {
		count[l]--
	}
	var broken []string
	for l, n := range count {
		switch l = strings.TrimSpace(l); {
		case n > 0:
			broken = append(broken, apiFile+": missing (run with -api if the change is intended): "+l)
		case n < 0:
			broken = append(broken, apiFile+": not in the code (run with -api if the change is intended): "+l)
		}
	}
	slices.Sort(broken)
	return broken
}
