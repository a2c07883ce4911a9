package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestHistogram(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		const bins = "( *[0-9]+ +[0-9]+ [*]*\n)+"
		return fmt.Sprintf("%s%d numbers of %d PEs\n%s", bins, n*100_000, n, bins), 0
	})
}
