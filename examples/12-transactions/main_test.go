package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// If there are enough ranks, one is killed, and the others finish the work, on one node and on several.
func TestTransactions(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		if n < 3 {
			return result(n, "0"), 0
		}
		return result(n-1, "1"), 3
	})
}

// Any rank may be killed, even the one that prints.
func TestTransactionsSurvives(t *testing.T) {
	exampletest.Survive(t, func(n, _ int) string { return result(n-1, "1") })
}

// Any node may be lost.
func TestTransactionsSurvivesNode(t *testing.T) {
	exampletest.SurviveNode(t, "--batches 10000", result(2, "[1-3]")+"|"+result(3, "[1-3]"))
}

// result returns the output of n ranks that are left.
func result(n int, rejected string) string {
	sum := 0
	for i := range numbers {
		sum += i * i
	}
	return fmt.Sprintf("the squares add up to %d, by %d ranks at the end; %s batches were rejected\n", sum, n, rejected)
}
