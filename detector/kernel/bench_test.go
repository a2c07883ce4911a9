//go:build linux

package kernel

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/xunix"
)

// BenchmarkDeath measures the time from kill to the report of Dead, in microseconds, for each
// tier: smallest, median, largest; and to Released.
func BenchmarkDeath(b *testing.B) {
	for _, c := range []struct {
		name string
		args []string
	}{
		{"small", []string{"exit", "0"}},
		{"threads", []string{"threads", "16"}},
		{"shared 4 GiB", []string{"shared", "4096"}},
	} {
		for tier := BPF; tier <= SIGCHLD; tier++ {
			b.Run(c.name+"/"+tier.String(), func(b *testing.B) {
				if total, err := xunix.MemoryTotal(); c.args[0] == "shared" && (err != nil || total < 8<<30) {
					b.Skipf("memory of %d bytes, %v, want 8 GiB", total, err)
				}
				if tier == BPF {
					testenv.Need(b, testenv.EBPF)
				}
				benchmarkDeath(b, tier, c.args)
			})
		}
	}
}

func benchmarkDeath(b *testing.B, tier Tier, args []string) {
	b.Helper()
	type news struct {
		kind Kind
		at   time.Duration
	}
	told := make(chan news, 2)
	w, err := Open(Config{Tier: tier, Report: func(r Report) { told <- news{r.Kind, xunix.Monotonic()} }})
	if err != nil {
		b.Skip(err)
	}
	defer w.Close()
	var dead, released []time.Duration
	for range b.N {
		v := spawn(b, args...)
		if err := w.Add(v.pid(), 1); err != nil {
			b.Fatal(err)
		}
		at := xunix.Monotonic()
		xunix.Kill(v.pid(), syscall.SIGKILL)
		for range 2 {
			n := <-told
			if n.kind == Dead {
				dead = append(dead, n.at-at)
			} else {
				released = append(released, n.at-at)
			}
		}
		v.reap()
		v.in.Close()
		v.pipe.Close()
	}
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	slices.Sort(dead)
	slices.Sort(released)
	b.ReportMetric(us(dead[0]), "min-µs")
	b.ReportMetric(us(dead[len(dead)/2]), "p50-µs")
	b.ReportMetric(us(dead[len(dead)-1]), "max-µs")
	b.ReportMetric(us(released[len(released)/2]), "released-p50-µs")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOpen measures what a job pays at its start and its end.
func BenchmarkOpen(b *testing.B) {
	for tier := BPF; tier <= SIGCHLD; tier++ {
		b.Run(tier.String(), func(b *testing.B) {
			if tier == BPF {
				testenv.Need(b, testenv.EBPF)
			}
			for b.Loop() {
				w, err := Open(Config{Tier: tier, Poll: time.Second, Report: func(Report) {}})
				if err != nil {
					b.Skip(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
