package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestSort(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		return fmt.Sprintf("%d numbers of %d PEs, sorted: true\n", n*100_000, n), 0
	})
}
