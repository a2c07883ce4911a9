package shmem

import (
	"errors"
	"fmt"
	"testing"
)

// The rows and columns of a Split2D may be tolerant, whether they lie on one node or on several.
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
			{2, tolerant, tolerant},
		} {
			row, column, err := w.Team().Split2D(c.xrange, c.row, c.column)
			if err != nil {
				return fmt.Errorf("rows of %d: %w", c.xrange, err)
			}
			if err := errors.Join(row.Sync(), column.Sync(), column.Destroy(), row.Destroy()); err != nil {
				return err
			}
		}
		return nil
	})
}
