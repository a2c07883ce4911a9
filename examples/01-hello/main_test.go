package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestHello(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		lines := make([]string, n)
		for pe := range lines {
			lines[pe] = fmt.Sprintf("PE %d of %d: my left neighbor is PE %d\n", pe, n, (pe+n-1)%n)
		}
		return strings.Join(lines, ""), 0
	})
}
