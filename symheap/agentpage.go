package symheap

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// CreateAgentPage makes the page of a node's agent, which says which PEs each node has. The caller owns the file.
func CreateAgentPage(parts []layout.NodePart) (*os.File, error) {
	var page layout.AgentPage
	if len(parts) > len(page.Parts) {
		return nil, fmt.Errorf("agent page of %d nodes, want at most %d", len(parts), len(page.Parts))
	}
	copy(page.Parts[:], parts)
	f, err := xunix.Memfd("goshmem-agent", int64(unsafe.Sizeof(page)))
	if err != nil {
		return nil, fmt.Errorf("agent page: %w", err)
	}
	if _, err = f.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&page)), unsafe.Sizeof(page)), 0); err == nil {
		err = xunix.SealSize(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("agent page: %w", err)
	}
	return f, nil
}

// ReadTraffic reads the counts of the agent and of a PE from the page's file.
func ReadTraffic(page *os.File, local layout.Local) (agent layout.AgentTraffic, pe layout.Traffic, err error) {
	var p layout.AgentPage
	if local < 0 || local >= layout.MaxLocal {
		return agent, pe, fmt.Errorf("agent page: counts of local PE %d, want 0 to %d", local, layout.MaxLocal-1)
	}
	at := unsafe.Offsetof(p.Traffic) + uintptr(local)*unsafe.Sizeof(pe)
	if _, err = page.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&agent)), unsafe.Sizeof(agent)), int64(unsafe.Offsetof(p.Carried))); err == nil {
		_, err = page.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&pe)), unsafe.Sizeof(pe)), int64(at))
	}
	if err != nil {
		err = fmt.Errorf("agent page: counts of local PE %d: %w", local, err)
	}
	return agent, pe, err
}

// MapAgentPage maps the page from its memfd, which may be closed afterwards. The mapping lasts as long as the process.
func MapAgentPage(fd int) (*layout.AgentPage, error) {
	size, err := xunix.FileSize(fd)
	if err != nil {
		return nil, fmt.Errorf("agent page: %w", err)
	}
	const want = unsafe.Sizeof(layout.AgentPage{})
	if size != uint64(want) {
		return nil, fmt.Errorf("agent page of %d bytes, want %d: oshrun and the program were built from different versions", size, want)
	}
	at, err := xunix.Map(fd, want, true)
	if err != nil {
		return nil, fmt.Errorf("agent page: %w", err)
	}
	return (*layout.AgentPage)(at), nil
}
