package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// Heat is conserved, but for that of the PE which is killed, if there are enough.
func TestMixed(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		if n < 3 {
			return fmt.Sprintf("heat %d.000 on %d PEs, %d cells computed\n", 1000*n, n, 200_000*n), 0
		}
		return fmt.Sprintf("heat %d00[0-9].[0-9]{3} on %d PEs, %d cells computed\n", n-1, n-1, 200_000*(n-1)+100_000), 3
	})
}
