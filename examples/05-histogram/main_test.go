package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestHistogram(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		return fmt.Sprintf("( *[0-9]+ +[0-9]+ [*]*\n){16}in all: %d numbers of %d PEs\n", n*100_000, n), 0
	})
}
