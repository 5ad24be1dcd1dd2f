// Package graph lays out the members of a workflow as a drawing.
package graph

import (
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/plain"
	"github.com/sojourn-queue/sojourn/workflow"
)

// Sizes of the graph, in pixels.
const (
	nodeWidth, nodeHeight = 150, 36
	gapX, gapY            = 44, 14
	margin                = 6
	charsInNode           = 18
)

// Node is a member in the graph.
type Node struct {
	workflow.MemberStatus
	X, Y  int
	Label string
}

// Graph is a workflow as a drawing, in layers from left to right.
type Graph struct {
	Width, Height int
	Nodes         []Node
	Edges         []string // paths of SVG
}

// Layout puts each member one layer behind the last of those that it waits for.
func Layout(members []workflow.MemberStatus, parents map[sojourn.ID][]sojourn.ID) *Graph {
	layer, at := map[sojourn.ID]int{}, map[sojourn.ID]int{}
	for i, m := range members {
		at[m.Job] = i
	}
	for range members { // dependencies have no cycles, so the longest path has at most one edge for each member
		changed := false
		for _, m := range members {
			for _, p := range parents[m.Job] {
				if _, inside := at[p]; inside && layer[m.Job] <= layer[p] {
					layer[m.Job], changed = layer[p]+1, true
				}
			}
		}
		if !changed {
			break
		}
	}
	g, rows := &Graph{}, map[int]int{}
	for _, m := range members {
		x, y := margin+layer[m.Job]*(nodeWidth+gapX), margin+rows[layer[m.Job]]*(nodeHeight+gapY)
		rows[layer[m.Job]]++
		g.Nodes = append(g.Nodes, Node{MemberStatus: m, X: x, Y: y, Label: plain.Short(charsInNode, m.Name)})
		g.Width, g.Height = max(g.Width, x+nodeWidth+margin), max(g.Height, y+nodeHeight+margin)
	}
	for _, to := range g.Nodes {
		for _, p := range slices.Sorted(slices.Values(parents[to.Job])) {
			if i, inside := at[p]; inside {
				from := g.Nodes[i]
				x1, y1, x2, y2 := from.X+nodeWidth, from.Y+nodeHeight/2, to.X, to.Y+nodeHeight/2
				g.Edges = append(g.Edges, fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, x1+gapX/2, y1, x2-gapX/2, y2, x2, y2))
			}
		}
	}
	return g
}
