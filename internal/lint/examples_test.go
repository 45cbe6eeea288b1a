package lint

import (
	"go/ast"
	"go/doc"
	"strings"
	"testing"
)

// shown are types that an Example uses without naming them: it gets them from a call.
var shown = map[string]string{
	"sharding.ClusterStats": "ExampleRegistry", "sharding.NodeStats": "ExampleRegistry", "sharding.ShardStats": "ExampleRegistry",
	"sharding.NodeFailure": "ExampleRegistry", "sharding.Location": "ExampleRegistry", "sharding.History": "ExampleRegistry",
	"sharding.TraceEvent": "ExampleRegistry", "sharding.RunningDaemon": "ExampleRegisterDaemon",
	"sharding.PanicError": "ExampleSupervision", "sharding.PanicAction": "ExampleSupervision", "sharding.AskOption": "ExampleRetry", "sharding.Code": "ExampleError", "sharding.Snapshotter": "ExampleReplicated",
	"sharding.UnfinishedError": "ExampleNode_Shutdown", "sharding.RunningHandler": "ExampleNode_Shutdown", "sharding.StateMode": "ExampleReplicated", "sharding.KindCodec": "ExampleKinds", "sharding.Reason": "ExampleStats",
	"peerage.TypeStatus": "ExampleNode_Status", "peerage.HomeStatus": "ExampleNode_Status",
	"peerage.Problem": "ExampleConfigError", "peerage.Resolver": "ExampleConfigError", "peerage.NetworkCut": "ExampleNetwork",
	"strategy.Moved": "ExampleMoved",
}

// TestExportedTypesHaveExamples asks a runnable Example, with output, for each
// exported type that applications use.
func TestExportedTypesHaveExamples(t *testing.T) {
	named, examples, types := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range tree(t) {
		pkg := map[string]string{".": "peerage", "sharding": "sharding", "sharding/strategy": "strategy"}[f.pkg]
		if pkg == "" {
			continue
		}
		for _, decl := range f.ast.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || f.test {
				continue
			}
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
					types[pkg+"."+s.Name.Name] = true
				}
			}
		}
		if !f.test {
			continue
		}
		for _, e := range doc.Examples(f.ast) {
			if e.Output == "" {
				t.Errorf("%s: Example%s has no output: nobody runs it", f.path, e.Name)
			}
			examples["Example"+e.Name] = true
			named[pkg+"."+strings.Split(e.Name, "_")[0]] = true
			identifiers(f.ast, pkg, named)
		}
	}
	for typ := range types { // order-free: each is judged by itself
		by := shown[typ]
		switch {
		case by != "" && !examples[by]:
			t.Errorf("%s is said to be shown by %s, which does not exist", typ, by)
		case by == "" && !named[typ]:
			t.Errorf("no Example shows %s", typ)
		}
	}
	if len(types) < 60 {
		t.Errorf("only %d types were found", len(types))
	}
}

// identifiers notes the names that a file with Examples uses, as those of pkg.
func identifiers(file *ast.File, pkg string, named map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			named[pkg+"."+id.Name] = true
		}
		return true
	})
}
