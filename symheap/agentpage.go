package symheap

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// CreateAgentPage makes the page of a node's agent, which says which PEs each node has. The caller owns the file. list is that
// of all PEs, node after node, if those of some node do not have consecutive numbers.
func CreateAgentPage(parts []layout.NodePart, list ...layout.PE) (*os.File, error) {
	var page layout.AgentPage
	if len(parts) > len(page.Parts) {
		return nil, fmt.Errorf("agent page of %d nodes, want at most %d", len(parts), len(page.Parts))
	}
	copy(page.Parts[:], parts)
	page.Listed = uint32(len(list))
	b := slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&page)), unsafe.Sizeof(page)))
	for _, pe := range list {
		b = binary.NativeEndian.AppendUint32(b, uint32(pe))
	}
	f, err := xunix.Memfd("goshmem-agent", int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("agent page: %w", err)
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = xunix.SealSize(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("agent page: %w", err)
	}
	return f, nil
}

// ReadTraffic reads the counts of the agent and of a node's PEs, by local index, from the page's file.
func ReadTraffic(page *os.File, near int) (agent layout.AgentTraffic, pes []layout.Traffic, err error) {
	var p layout.AgentPage
	if near < 1 || near > layout.MaxLocal {
		return agent, nil, fmt.Errorf("agent page: counts of %d PEs, want 1 to %d", near, layout.MaxLocal)
	}
	pes = make([]layout.Traffic, near)
	if _, err = page.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&agent)), unsafe.Sizeof(agent)), int64(unsafe.Offsetof(p.Carried))); err == nil {
		size := uintptr(near) * unsafe.Sizeof(pes[0])
		_, err = page.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&pes[0])), size), int64(unsafe.Offsetof(p.Traffic)))
	}
	if err != nil {
		return agent, nil, fmt.Errorf("agent page: counts of %d PEs: %w", near, err)
	}
	return agent, pes, nil
}

// MapAgentPage maps the page from its memfd, which may be closed afterwards. The mapping lasts as long as the process.
func MapAgentPage(fd int) (*layout.AgentPage, error) {
	size, err := xunix.FileSize(fd)
	if err != nil {
		return nil, fmt.Errorf("agent page: %w", err)
	}
	const least = uint64(unsafe.Sizeof(layout.AgentPage{}))
	if size < least {
		return nil, fmt.Errorf("agent page of %d bytes, want at least %d: oshrun and the program were built from different versions", size, least)
	}
	at, err := xunix.Map(fd, uintptr(size), true)
	if err != nil {
		return nil, fmt.Errorf("agent page: %w", err)
	}
	page := (*layout.AgentPage)(at)
	if want := least + 4*uint64(page.Listed); size != want {
		return nil, fmt.Errorf("agent page of %d bytes with a list of %d PEs, want %d bytes: oshrun and the program were built from different versions",
			size, page.Listed, want)
	}
	return page, nil
}
