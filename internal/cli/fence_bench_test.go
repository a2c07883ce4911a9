package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
)

// timeFences calls so many fences as the first argument says. With a second one it puts so many bytes before each, which
// the fence collects. PE 0 prints the least and the median time of a fence in nanoseconds.
func timeFences(ctx context.Context, c *client.Client, args []string, stdout io.Writer) error {
	rounds, size := number(args[0]), number(args[1])
	took := make([]time.Duration, rounds)
	for i := range took {
		if size > 0 {
			value := codec.BytesValue(bytes.Repeat([]byte{byte(i)}, size))
			if err := c.Put(codec.ScopeGlobal, "data", value); err != nil {
				return err
			}
			if err := c.Commit(ctx); err != nil {
				return err
			}
		}
		begin := time.Now()
		if err := c.Fence(ctx, size > 0); err != nil {
			return err
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	if c.Rank() == 0 {
		fmt.Fprintln(stdout, took[0].Nanoseconds(), took[rounds/2].Nanoseconds())
	}
	return nil
}

// BenchmarkFence measures fences between emulated nodes with a PE each, which share this machine's processors. The time of a row
// without a unit of its own is that of the whole job.
func BenchmarkFence(b *testing.B) {
	own, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, nodes := range []int{1, 2, 4, 16, 64} {
		for _, size := range []int{0, 1 << 10} {
			b.Run(fmt.Sprintf("nodes=%d/bytes=%d", nodes, size), func(b *testing.B) {
				args := []string{"-n", strconv.Itoa(nodes), "t-pmix", "fences", strconv.Itoa(min(100, 1000/nodes)), strconv.Itoa(size)}
				if nodes > 1 {
					args = append([]string{"--emulate", strconv.Itoa(nodes)}, args...)
				}
				least, median := time.Duration(0), time.Duration(0)
				for range b.N {
					cmd := exec.Command(own, args...)
					cmd.Env = append(os.Environ(), asOshrun+"=1")
					cmd.Stderr = os.Stderr
					out, err := cmd.Output()
					if err != nil {
						b.Fatal(err)
					}
					if _, err := fmt.Sscan(string(out), &least, &median); err != nil {
						b.Fatalf("output %q: %v", out, err)
					}
				}
				b.ReportMetric(float64(least.Microseconds()), "us-least")
				b.ReportMetric(float64(median.Microseconds()), "us-median")
			})
		}
	}
}
