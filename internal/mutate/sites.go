package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// site is a place of a source at which one mutant differs.
type site struct {
	id   int
	pkg  string // import path
	file string // relative to the root
	line int
	fn   string // the function around it, with its receiver
	op   string
	text string // the source at that place, on one line
	nth  int    // among the sites with the same key, from 0
}

// siteKey names a site without its line, so that it outlives changes of other lines.
func (s *site) siteKey() string {
	k := fmt.Sprintf("%s %s: %s: %s", s.file, s.fn, s.op, s.text)
	if s.nth > 0 {
		k += fmt.Sprintf(" (%d)", s.nth+1)
	}
	return k
}

// edit replaces the source from one offset to another. Edits of one file never overlap; at one
// offset the suffixes of expressions that end there come first, the inner ones before.
type edit struct {
	from, to int
	text     string
	suffix   bool
	order    int // edits of outer expressions have lower ones
}

// scanner finds the sites of a file.
type scanner struct {
	pkg   *pkg
	path  string // relative to the root
	src   []byte
	fn    string
	next  func() int
	sites []*site
	edits []edit
}

// scanFile returns the sites of a file, and the edits that put their switches in.
func scanFile(p *pkg, path string, src []byte, file *ast.File, next func() int) ([]*site, []edit) {
	s := &scanner{pkg: p, path: path, src: src, next: next}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || ignoredFunc(fn.Name.Name) || isChecker(fn) {
			continue
		}
		s.fn = nameOf(fn)
		ast.Inspect(fn.Body, s.visit)
	}
	return s.sites, s.edits
}

// ignoredFunc reports whether a function only prints, traces or asserts.
func ignoredFunc(name string) bool {
	return slices.Contains([]string{"String", "GoString", "Format", "LogValue", "MarshalText", "Error"}, name) || strings.HasPrefix(name, "assert") || isTrace(name)
}

// isChecker reports whether a function compares the state of a core with its invariants. Only
// tests and simulators call it: it is a part of what must notice a mutant.
func isChecker(fn *ast.FuncDecl) bool {
	switch fn.Name.Name {
	case "Check":
		return fn.Recv != nil && fn.Type.Params.NumFields() == 0
	case "checkShard", "checkRoute", "checkHost", "checkAttempts", "checkHistory", "checkCounts", "beingWritten":
		return fn.Recv != nil
	case "checkCallers":
		return fn.Recv == nil
	}
	return false
}

func isTrace(name string) bool {
	return strings.HasPrefix(name, "trace") || strings.HasPrefix(name, "Trace")
}

func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch index := t.(type) { // of a receiver with type parameters
	case *ast.IndexExpr:
		t = index.X
	case *ast.IndexListExpr:
		t = index.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// visit adds the sites of one node. ast.Inspect calls it for outer nodes first.
func (s *scanner) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.IfStmt:
		if s.mentions(n.Cond, "assert") {
			return false
		}
		s.negate(n.Cond)
	case *ast.BlockStmt:
		s.statements(n.List)
	case *ast.CaseClause:
		s.statements(n.Body)
	case *ast.ReturnStmt:
		s.results(n)
	case *ast.BinaryExpr:
		s.binary(n)
	case *ast.CallExpr:
		return s.swapBounds(n)
	}
	return true
}

// statements drops assignments and calls, one at a time.
func (s *scanner) statements(list []ast.Stmt) {
	for _, st := range list {
		switch st := st.(type) {
		case *ast.AssignStmt:
			if st.Tok != token.DEFINE && !onlyBlank(st.Lhs) {
				s.drop(st)
			}
		case *ast.IncDecStmt:
			s.drop(st)
		case *ast.ExprStmt:
			if call, ok := st.X.(*ast.CallExpr); ok && !s.ignoredCall(call) {
				s.drop(st)
			}
		}
	}
}

func onlyBlank(all []ast.Expr) bool {
	return !slices.ContainsFunc(all, func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return !ok || id.Name != "_"
	})
}

// ignoredCall reports whether a call ends the function, or only traces or asserts.
func (s *scanner) ignoredCall(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name == "panic" || ignoredFunc(fun.Name)
	case *ast.SelectorExpr:
		return ignoredFunc(fun.Sel.Name) || s.mentions(fun.X, "assert")
	}
	return false
}

// mentions reports whether an expression uses a package of this name.
func (s *scanner) mentions(e ast.Expr, name string) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			p, ok := s.pkg.info.Uses[id].(*types.PkgName)
			found = found || ok && p.Imported().Name() == name
		}
		return !found
	})
	return found
}

// results negates what a function returns, if it is a plain bool.
func (s *scanner) results(ret *ast.ReturnStmt) {
	for _, e := range ret.Results {
		if t, ok := s.pkg.info.TypeOf(e).(*types.Basic); ok && t.Info()&types.IsBoolean != 0 {
			s.negate(e)
		}
	}
}

// swapBounds swaps min and max. It returns false if the call and its arguments are to be left alone.
func (s *scanner) swapBounds(call *ast.CallExpr) bool {
	if s.ignoredCall(call) {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	if !ok || len(call.Args) < 2 || call.Ellipsis.IsValid() || s.constant(call) || !s.ordered(call) {
		return true
	}
	if b, ok := s.pkg.info.Uses[id].(*types.Builtin); ok {
		switch b.Name() {
		case "min":
			s.wrapCall(call, "swap min and max", "Min")
		case "max":
			s.wrapCall(call, "swap min and max", "Max")
		}
	}
	return true
}

func (s *scanner) binary(e *ast.BinaryExpr) {
	if s.constant(e) {
		return
	}
	switch e.Op {
	case token.LAND:
		s.wrapNode(e.X, e, "drop left operand", "(switches.On(%d) || (", "))")
		s.wrapNode(e.Y, e, "drop right operand", "(switches.On(%d) || (", "))")
	case token.LOR:
		s.wrapNode(e.X, e, "drop left operand", "(!switches.On(%d) && (", "))")
		s.wrapNode(e.Y, e, "drop right operand", "(!switches.On(%d) && (", "))")
	case token.LSS:
		s.operator(e, "off by one", "Less")
	case token.LEQ:
		s.operator(e, "off by one", "LessEqual")
	case token.GTR:
		s.operator(e, "off by one", "Greater")
	case token.GEQ:
		s.operator(e, "off by one", "GreaterEqual")
	case token.ADD:
		s.arithmetic(e, "Add")
	case token.SUB:
		s.arithmetic(e, "Subtract")
	}
}

func (s *scanner) arithmetic(e *ast.BinaryExpr, name string) {
	if t, ok := s.pkg.info.TypeOf(e).Underlying().(*types.Basic); ok && t.Info()&(types.IsInteger|types.IsFloat) != 0 {
		s.operator(e, "swap + and -", name)
	}
}

// ordered reports whether values of the expression's type can be compared by <, and its type
// is no type parameter.
func (s *scanner) ordered(e ast.Expr) bool {
	if _, ok := s.pkg.info.TypeOf(e).(*types.TypeParam); ok {
		return false
	}
	t, ok := s.pkg.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && t.Info()&types.IsOrdered != 0
}

func (s *scanner) constant(e ast.Expr) bool {
	return s.pkg.info.Types[e].Value != nil && s.pkg.info.Types[e].Value.Kind() != constant.Unknown
}

// negate puts the switch of a negated condition around e.
func (s *scanner) negate(e ast.Expr) {
	if s.constant(e) && !isLiteral(e) {
		return
	}
	s.wrapNode(e, e, "negate", "(switches.On(%d) != (", "))")
}

func isLiteral(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && (id.Name == "true" || id.Name == "false")
}

func (s *scanner) drop(st ast.Stmt) {
	s.wrapNode(st, st, "drop", "if !switches.On(%d) { ", " }")
}

// wrapNode puts text before and after a node, for a site that is described by shown.
func (s *scanner) wrapNode(n, shown ast.Node, op, before, after string) {
	id := s.addSite(shown, op)
	s.insert(n.Pos(), 0, fmt.Sprintf(before, id), false)
	s.insert(n.End(), 0, after, true)
}

// operator makes a call of a binary expression.
func (s *scanner) operator(e *ast.BinaryExpr, op, name string) {
	if !s.ordered(e.X) || !s.ordered(e.Y) {
		return
	}
	id := s.addSite(e, op)
	s.insert(e.Pos(), 0, fmt.Sprintf("switches.%s(%d, ", name, id), false)
	s.insert(e.OpPos, len(e.Op.String()), ",", false)
	s.insert(e.End(), 0, ")", true)
}

func (s *scanner) wrapCall(call *ast.CallExpr, op, name string) {
	id := s.addSite(call, op)
	s.insert(call.Pos(), int(call.Lparen-call.Pos())+1, fmt.Sprintf("switches.%s(%d, ", name, id), false)
}

func (s *scanner) insert(at token.Pos, length int, text string, suffix bool) {
	from := s.pkg.fset.Position(at).Offset
	s.edits = append(s.edits, edit{from, from + length, text, suffix, len(s.edits)})
}

func (s *scanner) addSite(n ast.Node, op string) int {
	from, to := s.pkg.fset.Position(n.Pos()), s.pkg.fset.Position(n.End())
	found := &site{id: s.next(), pkg: s.pkg.path, file: s.path, line: from.Line, fn: s.fn, op: op,
		text: strings.Join(strings.Fields(string(s.src[from.Offset:to.Offset])), " ")}
	for _, other := range s.sites {
		if other.fn == found.fn && other.op == op && other.text == found.text {
			found.nth++
		}
	}
	s.sites = append(s.sites, found)
	return found.id
}

// rewrite applies edits to a source.
func rewrite(src []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int {
		switch {
		case a.from != b.from:
			return cmp.Compare(a.from, b.from)
		case a.suffix != b.suffix:
			if a.suffix {
				return -1
			}
			return 1
		case a.suffix:
			return b.order - a.order
		}
		return a.order - b.order
	})
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, src[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, src[at:]...)
}
