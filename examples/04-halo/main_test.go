package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// The heat is the same however the plate is divided.
func TestHalo(t *testing.T) {
	grids := map[int]string{1: "1 x 1", 2: "2 x 1", 3: "3 x 1", 4: "2 x 2", 5: "5 x 1", 8: "4 x 2"}
	exampletest.Run(t, func(n int) (string, int) {
		return fmt.Sprintf("%s PEs, 200 steps: no cell gets warmer by more than 0.117537204\n", grids[n]), 0
	})
}

// With more rows of PEs than rows of cells, some PEs between others have no cells.
func TestTooManyRows(t *testing.T) { exampletest.Refuse(t, 53) }
