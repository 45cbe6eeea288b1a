package main

import (
	"go/ast"
	"slices"
)

// upwardReferences counts the file-to-file references of a package and those that run
// upward: in an order of the files in which as few as possible do. A file refers to another
// if it uses a name, method or field that the other declares. Names are resolved by type,
// so equal names of different types are distinguished. net/http has 17 % by this count,
// memberlist 18.
func upwardReferences(m *module, p *pack) (refs, upward int) {
	n := len(p.files)
	index := map[string]int{}
	for i, f := range p.files {
		index[m.fset.Position(f.ast.Pos()).Filename] = i
	}
	uses := make([][]bool, n)
	for i, f := range p.files {
		uses[i] = make([]bool, n)
		ast.Inspect(f.ast, func(node ast.Node) bool {
			id, ok := node.(*ast.Ident)
			if !ok {
				return true
			}
			if obj := p.info.Uses[id]; obj != nil && obj.Pkg() == p.types {
				if j, ok := index[m.fset.Position(obj.Pos()).Filename]; ok && j != i {
					uses[i][j] = true
				}
			}
			return true
		})
	}
	for i := range uses {
		for j := range uses[i] {
			if uses[i][j] {
				refs++
			}
		}
	}
	return refs, backward(uses, layered(uses))
}

// layered orders the nodes so that few edges run backward: the node with the most edges
// out over edges in goes first (Eades), then single nodes move while that helps.
func layered(uses [][]bool) []int {
	n := len(uses)
	left := make([]int, n)
	for i := range left {
		left[i] = i
	}
	var order []int
	for len(left) > 0 {
		best, bestScore := 0, -n-1
		for k, i := range left {
			score := 0
			for _, j := range left {
				score += asInt(uses[i][j]) - asInt(uses[j][i])
			}
			if score > bestScore {
				best, bestScore = k, score
			}
		}
		order = append(order, left[best])
		left = slices.Delete(left, best, best+1)
	}
	for moveOne(uses, order) {
	}
	return order
}

// moveOne moves the first node whose best place is another one, and reports whether it
// found one.
func moveOne(uses [][]bool, order []int) bool {
	for from, node := range order {
		rest := slices.Delete(slices.Clone(order), from, from+1)
		// cost is the number of backward edges of node at place k, up to a constant.
		cost, best, bestCost, here := 0, 0, 0, 0
		for k := 0; ; k++ {
			if cost < bestCost {
				best, bestCost = k, cost
			}
			if k == from {
				here = cost
			}
			if k == len(rest) {
				break
			}
			cost += asInt(uses[node][rest[k]]) - asInt(uses[rest[k]][node])
		}
		if bestCost < here {
			copy(order, slices.Insert(rest, best, node))
			return true
		}
	}
	return false
}

func backward(uses [][]bool, order []int) int {
	n := 0
	for k, i := range order {
		for _, j := range order[:k] {
			n += asInt(uses[i][j])
		}
	}
	return n
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
