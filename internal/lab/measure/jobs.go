package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Jobs are the jobs of a measurement.
type Jobs struct {
	N        int
	What     string                 // what messages call the jobs: "jobs", "failures"
	Rand     *rand.Rand             // draws the order
	Progress func(done, all int)    // called before each job and after the last one; nil: no call
	Run      func(number int) error // runs a job and keeps its result. It bounds its job by the context of RunAll
}

// RunAll runs each job once, in random order: a change of the machine during the measurement then affects all cases
// alike. It stops at the first error, and when ctx ends: the error is then the cause of that end.
func (j *Jobs) RunAll(ctx context.Context) error {
	for done, number := range j.Rand.Perm(j.N) {
		j.showProgress(done)
		err := j.Run(number)
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("after %d of %d %s: %w", done, j.N, j.What, cause)
		}
		if err != nil {
			return err
		}
	}
	j.showProgress(j.N)
	return nil
}

func (j *Jobs) showProgress(done int) {
	if j.Progress != nil {
		j.Progress(done, j.N)
	}
}
