package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nodeFlagsDir is the package of the command whose flags the page of settings lists, and
// nodeFlagsFile the file that defines those of `peerage node`.
const (
	nodeFlagsDir  = "cmd/peerage"
	nodeFlagsFile = "cmd/peerage/node.go"
)

// nodeFlag is a flag of `peerage node`.
type nodeFlag struct {
	setting
	value string // the default
	list  bool   // may be repeated
}

// nodeFlags returns the flags of `peerage node` that its help lists, and the names of those
// that hold paths.
func (m *module) nodeFlags() (flags []nodeFlag, paths []string, err error) {
	p, err := m.packageAt(nodeFlagsDir)
	if err != nil {
		return nil, nil, err
	}
	var hidden []string
	for _, f := range p.files {
		if f.path != nodeFlagsFile {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if n.Names[0].Name == "hiddenFlags" {
					hidden = stringsIn(n.Values[0])
				}
			case *ast.CallExpr:
				if flag, ok := p.flagOf(n); ok {
					flags = append(flags, flag)
				}
				if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "addSettings" {
					paths = stringsIn(n)
				}
			}
			return true
		})
	}
	flags = slices.DeleteFunc(flags, func(f nodeFlag) bool { return slices.Contains(hidden, f.name) })
	if len(flags) < 20 || len(hidden) == 0 || len(paths) == 0 {
		return nil, nil, fmt.Errorf("%s has %d flags, %d hidden and %d with paths: the reading of it is broken", nodeFlagsFile, len(flags), len(hidden), len(paths))
	}
	return flags, paths, nil
}

// stringsIn returns the string literals in a node.
func stringsIn(n ast.Node) []string {
	var out []string
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, s)
			}
		}
		return true
	})
	return out
}

// flagOf returns the flag that a call of flags.Var, flags.StringVar and so on defines.
func (p *pack) flagOf(call *ast.CallExpr) (nodeFlag, bool) {
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nodeFlag{}, false
	}
	on, ok := called.X.(*ast.Ident)
	kind, isVar := strings.CutSuffix(called.Sel.Name, "Var")
	if !ok || on.Name != "flags" || !isVar || len(call.Args) < 3 {
		return nodeFlag{}, false
	}
	f := nodeFlag{setting: setting{name: p.textOf(call.Args[1]), typ: strings.ToLower(kind), doc: p.textOf(call.Args[len(call.Args)-1])}}
	if kind == "" {
		f.typ, f.list = "list", true
	} else {
		f.value = p.textOf(call.Args[2])
	}
	return f, true
}

// textOf returns the value of a constant expression as the help of a flag shows it.
func (p *pack) textOf(e ast.Expr) string {
	tv := p.info.Types[e]
	switch {
	case tv.Value == nil:
		return ""
	case tv.Value.Kind() == constant.String:
		return constant.StringVal(tv.Value)
	case types.TypeString(tv.Type, nil) == "time.Duration":
		n, _ := constant.Int64Val(tv.Value)
		return time.Duration(n).String()
	}
	return tv.Value.String()
}
