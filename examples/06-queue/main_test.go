package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestQueue(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		return fmt.Sprintf("%d PEs found 92 ways to place 8 queens\n", n), 0
	})
}
