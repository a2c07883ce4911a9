package graph500

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/shmem"
)

// need is the memory of one PE in bytes: the most that the options allow.
type need struct {
	symmetric uint64 // in the symmetric heap
	private   uint64 // tuples, rows and tables in ordinary memory
}

// total returns the sum.
func (n need) total() uint64 { return n.symmetric + n.private }

// needOf adds up what the phases allocate. It takes rows to be 1/8 larger than their mean, because some PEs get
// more.
func needOf(o Options, pes int) need {
	p := uint64(pes)
	nverts := uint64(1) << uint(o.Scale)
	tuples := nverts*uint64(o.EdgeFactor)/p + 1
	local := (nverts + p - 1) / p
	ranks := (local + wordMask) / wordBits * wordBits
	slots := 2 * p * uint64(slotEntries(pes))
	flat := p << uint(bits.Len64(ranks-1))

	var n need
	n.symmetric = local*(4+4+8+1) + // degrees, ranks, parents, levels
		ranks*(4+4) + // degrees and parents by rank
		ranks/8*(1+frontiers) + p*ranks/8 + // bitmaps
		max(slots*8, ranks*4) + // inboxes, later vertices by rank
		2*p*(headStride+cellWords+gatherWidth)*8 + 1<<16
	n.private = 12*tuples + 4*(2*tuples+tuples/4) + // tuples, rows
		local*(4+4) + ranks*(2+headLen)*4 + // self-loops, waiting vertices, row starts and heads
		4*p*ranks + flat/8 + // vertices of all flat numbers, copy of the frontier
		16<<20 // the program itself
	return n
}

// preflight returns an error if the run does not fit into memory, before anything is generated. It allocates all
// that the run needs of the heap at once, so that the heap's error says how large it is and what to set.
// Collective; all PEs return the same.
func preflight(g *group, o Options) error {
	n := needOf(o, g.pes)
	var available uint64
	if g.me == 0 {
		available = availableMemory()
	}
	if err := g.maximum("memory check", &available); err != nil {
		return err
	}
	if err := fitsMachine(o, g.pes, available); err != nil {
		return &agreedError{err}
	}
	trial, err := shmem.Alloc[uint64](g.w, int(n.symmetric/8))
	if err != nil {
		return &agreedError{fmt.Errorf("symmetric heap: --scale %d with %d PEs needs %s of it a PE: %w",
			o.Scale, g.pes, formatBytes(n.symmetric), err)}
	}
	if err := shmem.Free(g.w, trial); err != nil {
		return fmt.Errorf("memory check: %w", err)
	}
	return nil
}

// fitsMachine returns an error if the PEs need more memory than is available. 0 means that this is unknown.
func fitsMachine(o Options, pes int, available uint64) error {
	total := needOf(o, pes).total() * uint64(pes)
	if available == 0 || total <= available {
		return nil
	}
	hint := "a smaller --edgefactor"
	smaller := o
	for smaller.Scale--; smaller.Scale >= 1; smaller.Scale-- {
		if needOf(smaller, pes).total()*uint64(pes) <= available {
			hint = fmt.Sprintf("--scale %d fits here", smaller.Scale)
			break
		}
	}
	return fmt.Errorf("memory: --scale %d --edgefactor %d with %d PEs needs %s on this node, want at most the %s available; hint: %s",
		o.Scale, o.EdgeFactor, pes, formatBytes(total), formatBytes(available), hint)
}

// availableMemory returns the memory that the kernel can give without swapping, or the limit of the control
// group if that is less. It returns 0 if it does not know.
func availableMemory() uint64 {
	available := procField("/proc/meminfo", "MemAvailable:")
	if raw, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64); err == nil {
			available = min(available, limit)
		}
	}
	return available
}

// peakResident returns the largest resident set that this process has had, or 0 if unknown.
func peakResident() uint64 { return procField("/proc/self/status", "VmHWM:") }

// procField returns a field of a /proc file in bytes. The file gives it in kB.
func procField(file, field string) uint64 {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		rest, ok := strings.CutPrefix(line, field)
		if !ok {
			continue
		}
		kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return kb << 10
	}
	return 0
}

// formatBytes prints a size with a binary unit.
func formatBytes(n uint64) string {
	switch {
	case n >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(n)/(1<<40))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
