package symheap

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Homes says where the PEs of a job are, for PEs of this job and of others that exchange messages with them.
type Homes struct {
	// Bases has, by node, the agent's index of the job's first PE there: the others follow. NoBase: the agent does not serve the job, or there is none.
	Bases []uint32
	Nodes []uint32 // by PE: its node
}

// NoBase is the base of a node whose agent does not serve the job.
const NoBase = ^uint32(0)

// CreateHomes makes a file of the homes of a job. The caller owns it.
//
//	file  u32 nodes, u32 PEs, u32 for each node: its base, u32 for each PE: its node
func CreateHomes(h *Homes) (*os.File, error) {
	b := binary.NativeEndian.AppendUint32(nil, uint32(len(h.Bases)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(h.Nodes)))
	for _, words := range [][]uint32{h.Bases, h.Nodes} {
		for _, w := range words {
			b = binary.NativeEndian.AppendUint32(b, w)
		}
	}
	f, err := xunix.Memfd("goshmem-homes", int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("homes of %d PEs: %w", len(h.Nodes), err)
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = xunix.SealSize(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("homes of %d PEs: %w", len(h.Nodes), err)
	}
	return f, nil
}

// ReadHomes reads the homes of a job of npes PEs from its file.
func ReadHomes(fd, npes int) (*Homes, error) {
	size, err := xunix.FileSize(fd)
	if err != nil {
		return nil, fmt.Errorf("homes of %d PEs: %w", npes, err)
	}
	const most = 4 * (2 + layout.WireNodes*(1+layout.MaxLocal))
	words := make([]uint32, min(size, most)/4)
	if len(words) < 2 || size > most {
		return nil, fmt.Errorf("homes of %d PEs: file of %d bytes, want 8 to %d", npes, size, most)
	}
	if err := xunix.ReadAt(fd, unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4*len(words)), 0); err != nil {
		return nil, fmt.Errorf("homes of %d PEs: %w", npes, err)
	}
	nodes := int(words[0])
	if int(words[1]) != npes || len(words) != 2+nodes+npes {
		return nil, fmt.Errorf("homes of %d PEs: file of %d nodes and %d PEs in %d words, want one word for each of them: oshrun and the program were built from different versions",
			npes, nodes, words[1], len(words))
	}
	h := &Homes{Bases: words[2 : 2+nodes], Nodes: words[2+nodes:]}
	for pe, node := range h.Nodes {
		if int(node) >= nodes {
			return nil, fmt.Errorf("homes of %d PEs: PE %d is on node %d, want less than %d", npes, pe, node, nodes)
		}
	}
	return h, nil
}
