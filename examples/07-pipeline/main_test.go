package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestPipeline(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		return fmt.Sprintf("64 blocks went through %d PEs\n", n), 0
	})
}
