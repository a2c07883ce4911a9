package detectbench

import (
	"slices"

	"github.com/goshmem/goshmem/internal/lab/measure"
)

// addNodes adds a trial between nodes. Survivors on the victim's own node, in a case of one PE, must learn of the death,
// too, but their times do not count.
func (r *Result) addNodes(t *nodeTrial) {
	r.Samples++
	r.False += t.accused
	r.injected = append(r.injected, measure.Milliseconds(t.acted-t.injected))
	if t.said > t.injected {
		r.said = append(r.said, measure.Milliseconds(t.said-t.injected))
	}
	var homes []int // nodes of victims
	for _, pe := range t.dead {
		homes = append(homes, t.nodes[pe])
	}
	stored := map[int]bool{} // by node, whose survivors read one page
	var returned []float64
	for q, s := range t.seen {
		if slices.Contains(t.dead, q) {
			continue
		}
		if s == nil {
			r.Missed++
			continue
		}
		if len(t.dead) == 0 {
			if len(s.Failed)+len(s.Told)+len(s.Page) > 0 {
				r.False++
			}
			continue
		}
		knows := containsAll(s.Failed, t.dead) && containsAll(s.Told, t.dead) && (!r.Hybrid || s.MPI > 0)
		if r.Hybrid && (s.Differs || !slices.Equal(s.Models, modelNames)) {
			r.Unseen++
		}
		if !knows {
			r.Missed++
		}
		early := knows && s.Stored < t.injected
		if early || !containsAll(t.dead, s.Failed) || !containsAll(t.dead, s.Told) || !containsAll(t.dead, s.Page) {
			r.False++
		}
		node := t.nodes[q]
		if !knows || early || slices.Contains(homes, node) {
			continue
		}
		returned = append(returned, measure.Milliseconds(s.Returned-t.injected))
		r.told = append(r.told, measure.Milliseconds(s.Called-t.injected))
		if r.Hybrid {
			r.mpi = append(r.mpi, measure.Milliseconds(s.MPI-t.injected))
		}
		if !stored[node] {
			stored[node] = true
			r.stored = append(r.stored, measure.Milliseconds(s.Stored-t.injected))
		}
	}
	if len(returned) > 0 {
		r.returned = append(r.returned, returned...)
		r.first, r.last = append(r.first, slices.Min(returned)), append(r.last, slices.Max(returned))
	}
}
