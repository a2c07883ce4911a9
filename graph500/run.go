package graph500

import (
	"errors"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// Search is one search: its time and what it reached.
type Search struct {
	Root            uint64  `json:"root"`
	Seconds         float64 `json:"time_s"`
	Edges           uint64  `json:"edges"` // input tuples inside the component, self-loops left out
	EdgesAndLoops   uint64  `json:"edges_with_self_loops"`
	Reached         uint64  `json:"reached"`
	Depth           int     `json:"depth"`
	TEPS            float64 `json:"teps"`
	ValidateSeconds float64 `json:"validate_s"`
	Valid           *bool   `json:"valid"` // null: not validated
}

// Result is the result of a run.
type Result struct {
	Options             Options
	PEs, Nodes          int
	GenerationSeconds   float64
	ConstructionSeconds float64
	Searches            []Search
	PeakResident        []uint64 // bytes, by PE
}

// agreedError is an error that all PEs have. PE 0 prints it, and all go on to Finalize.
type agreedError struct{ err error }

// Error returns the text of the cause.
func (e *agreedError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *agreedError) Unwrap() error { return e.err }

// InvalidError reports a search with a wrong answer.
type InvalidError struct {
	Search int // number of the search, from 0 on
	Root   uint64
	Err    *Violation
}

// Error names the search and the violation.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("invalid result: search %d from root %d: %v", e.Search, e.Root, e.Err)
}

// Unwrap returns the violation.
func (e *InvalidError) Unwrap() error { return e.Err }

// runner is a run on one PE.
type runner struct {
	*group
	o      Options
	result *Result
}

// Run generates, constructs, searches and validates on all PEs of w and returns the same result on each.
//
//   - Collective: called by all PEs of w.
//   - Errors: *InvalidError if an answer is wrong.
func Run(w *shmem.World, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, &agreedError{err}
	}
	g, err := newGroup(w)
	if err != nil {
		return nil, err
	}
	r := &runner{group: g, o: o, result: &Result{Options: o, PEs: g.pes, Nodes: 1}}
	if err := preflight(g, o); err != nil {
		return nil, err
	}
	if err := r.run(); err != nil {
		return nil, err
	}
	return r.result, r.collectResident()
}

// run does all that Run does apart from checks of the options and of memory.
func (r *runner) run() error {
	gen := newGenerator(r.o.Scale, r.o.Seed)
	tuples, err := r.generate(gen)
	if err != nil {
		return err
	}
	gr, err := r.construct(tuples)
	if err != nil {
		return err
	}
	roots, err := gen.chooseRoots(r.o.Roots, gr.hasEdge)
	if err != nil {
		return err
	}
	if len(roots) == 0 {
		return &agreedError{fmt.Errorf("search keys: 0 found, want at least 1 vertex with an edge to another; hint: a larger --scale or --edgefactor")}
	}
	return r.searchAll(gr, tuples, roots)
}

// generate makes this PE's share of the tuples.
func (r *runner) generate(gen *generator) ([]tuple, error) {
	from, to := shareOf(uint64(r.o.EdgeFactor)<<uint(r.o.Scale), r.me, r.pes)
	tuples := make([]tuple, to-from)
	seconds, err := r.timed("generation", func() error {
		const block = 1 << 18
		for at := 0; at < len(tuples); at += block {
			end := min(at+block, len(tuples))
			gen.fill(tuples[at:end], from+uint64(at))
			r.progress("generation", end, len(tuples))
		}
		return nil
	})
	r.result.GenerationSeconds = seconds
	return tuples, err
}

// construct runs and times kernel 1.
func (r *runner) construct(tuples []tuple) (gr *graph, err error) {
	r.progress("construction", 0, 1)
	r.result.ConstructionSeconds, err = r.timed("construction", func() (err error) {
		gr, err = construct(r.group, tuples)
		return err
	})
	if err == nil {
		r.progress("construction", 1, 1)
	}
	return gr, err
}

// timed runs a phase between barriers and returns its time on the slowest PE.
func (r *runner) timed(phase string, f func() error) (float64, error) {
	if err := r.barrier(phase); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return 0, err
	}
	if err := r.barrier(phase); err != nil {
		return 0, err
	}
	nanos := uint64(time.Since(start))
	err := r.maximum(phase, &nanos)
	return float64(nanos) / 1e9, err
}

// hasEdge asks a vertex's owner whether it has an edge to another vertex.
func (gr *graph) hasEdge(v uint64) (bool, error) {
	if v >= gr.own.nverts {
		return false, nil
	}
	owner, local := gr.own.split(v)
	degree, err := shmem.G(gr.g.w.Ctx(), gr.degreeSym.At(int(local)), int(owner))
	if err != nil {
		return false, fmt.Errorf("degree of vertex %d: get from PE %d: %w", v, owner, err)
	}
	return degree > 0, nil
}

// searchAll runs kernel 2 from every root, after one untimed search that touches all memory.
func (r *runner) searchAll(gr *graph, tuples []tuple, roots []uint64) error {
	b, err := newBFS(gr)
	if err != nil {
		return err
	}
	check, err := newChecker(r.group, gr.own, tuples, b.pred)
	if err != nil {
		return err
	}
	if _, err := b.search(roots[0]); err != nil {
		return err
	}
	for i, root := range roots {
		r.progress("search", i, len(roots))
		s, err := b.search(root)
		if err != nil {
			return err
		}
		s.TEPS = float64(s.Edges) / s.Seconds
		if r.o.Validate {
			if err := r.validate(check, i, &s); err != nil {
				return err
			}
		}
		r.result.Searches = append(r.result.Searches, s)
	}
	r.progress("search", len(roots), len(roots))
	return nil
}

// validate checks and times search i.
func (r *runner) validate(c *checker, i int, s *Search) error {
	var bad *Violation
	seconds, err := r.timed("validation", func() (err error) {
		bad, err = c.check(*s)
		return err
	})
	if err != nil {
		return err
	}
	if bad != nil {
		return &agreedError{&InvalidError{Search: i, Root: s.Root, Err: bad}}
	}
	s.ValidateSeconds = seconds
	s.Valid = new(bool)
	*s.Valid = true
	return nil
}

// progress calls Options.Progress on PE 0.
func (r *runner) progress(phase string, done, total int) {
	if r.me == 0 && r.o.Progress != nil {
		r.o.Progress(phase, done, total)
	}
}

// collectResident gathers the peak memory of all PEs, and frees what the group has held.
func (r *runner) collectResident() error {
	all, err := r.gather("memory report", peakResident())
	if err != nil {
		return err
	}
	for pe := range r.pes {
		r.result.PeakResident = append(r.result.PeakResident, all[pe*gatherWidth])
	}
	return r.release()
}

// isAgreed reports whether all PEs have the error.
func isAgreed(err error) bool {
	var agreed *agreedError
	return errors.As(err, &agreed)
}
