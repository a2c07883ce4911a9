package sched

import "slices"

// Run is one execution of a plan. Its user asks for steps that may begin (Next), executes them in any order, and says
// when each is done (Done).
//
//   - Concurrent calls: not allowed.
type Run struct {
	plan  *Plan
	waits []int32 // by step: how many steps that come before it are not done
	ready []int32 // steps that may begin
	left  int     // steps that are not done
}

// Start begins to execute a plan, in place of what was executed before.
func (r *Run) Start(p *Plan) {
	r.plan, r.left, r.ready = p, len(p.Steps), r.ready[:0]
	r.waits = append(r.waits[:0], p.waits...)
	for i, waits := range slices.Backward(p.waits) { // Next takes the last one: begin in the order of the plan
		if waits == 0 {
			r.ready = append(r.ready, int32(i))
		}
	}
}

// Next returns a step that may begin, or false if all of those have begun.
func (r *Run) Next() (step int, ok bool) {
	last := len(r.ready) - 1
	if last < 0 {
		return 0, false
	}
	step, r.ready = int(r.ready[last]), r.ready[:last]
	return step, true
}

// Done says that a step is done.
func (r *Run) Done(step int) {
	r.left--
	for _, next := range r.plan.next[r.plan.first[step]:r.plan.first[step+1]] {
		if r.waits[next]--; r.waits[next] == 0 {
			r.ready = append(r.ready, next)
		}
	}
}

// Step returns a step by its number.
func (r *Run) Step(step int) *Step { return &r.plan.Steps[step] }

// Left returns how many steps are not done.
func (r *Run) Left() int { return r.left }

// Over says that all steps are done.
func (r *Run) Over() bool { return r.left == 0 }
