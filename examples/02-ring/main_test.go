package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestRing(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		return fmt.Sprintf("the token has gone 3 times round %d PEs\n", n), 0
	})
}
