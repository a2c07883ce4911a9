package shmem

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A Split2D whose rows or columns lie on several nodes for some PEs alone fails on all PEs if these teams are to be
// tolerant, and the next collective works.
func TestFarSplit2DTolerant(t *testing.T) {
	f := newFarJob(t, 2, 2)
	tolerant := &TeamConfig{Mode: ModeTolerant}
	f.each(t, func(w *World) error {
		for _, c := range []struct {
			xrange      int
			row, column *TeamConfig
		}{
			{3, tolerant, nil}, // rows 0 1 2, and 3
			{3, nil, tolerant}, // columns 0 3, and 1, and 2
			{2, nil, tolerant},
		} {
			_, _, err := w.Team().Split2D(c.xrange, c.row, c.column)
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), "on several nodes") {
				return fmt.Errorf("rows of %d: %w", c.xrange, err)
			}
			if err := w.Team().Sync(); err != nil {
				return err
			}
		}
		row, column, err := w.Team().Split2D(2, tolerant, nil) // rows of one node each
		if err != nil {
			return err
		}
		return errors.Join(row.Sync(), column.Sync(), column.Destroy(), row.Destroy())
	})
}
