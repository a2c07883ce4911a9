package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

const rowAllocations = "allocations"

// allocations is the group of one row: the test that no call on a data path allocates.
var allocations = group{
	rounds: 1,
	limits: []limit{{row: rowAllocations, unit: "packages with", most: 0.5}},
	run: func(ctx context.Context, b *bed) error {
		_, err := b.output(ctx, runLimit, b.root, "go", "test", "-count=1", "-run", "^TestNoAllocations$", "./shmem")
		var failed *exec.ExitError
		switch {
		case err == nil:
			b.values.add(goshmem, rowAllocations, 0)
		case errors.As(err, &failed):
			fmt.Fprintln(b.log, "check:", err)
			b.values.add(goshmem, rowAllocations, 1)
		default:
			return err
		}
		return nil
	},
}
