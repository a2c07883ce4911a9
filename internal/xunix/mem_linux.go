package xunix

import (
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PageSize returns the size of a memory page in bytes.
func PageSize() int { return unix.Getpagesize() }

// Memfd makes an anonymous shared memory file of size bytes.
//
// Nothing of it is ever visible in a file system: it lives as long as a file
// descriptor or a mapping of it does. The descriptor is close-on-exec.
func Memfd(name string, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Ftruncate(fd, size); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("ftruncate %s to %d bytes: %w", name, size, err)
	}
	return f, nil
}

// SealSize forbids any further change of the file's size, so that nobody who
// holds the descriptor can make a mapping of it fault.
func SealSize(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	if err != nil {
		return fmt.Errorf("seal %s: %w", f.Name(), err)
	}
	return nil
}

// SealForWriters forbids any further change of the file's size and any further way
// to write to it. A writable shared mapping that is there already stays one: its
// owner is the only writer from then on.
func SealForWriters(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	if err != nil {
		return fmt.Errorf("seal %s: %w", f.Name(), err)
	}
	return nil
}

// ReadAt reads len(b) bytes of fd from an offset on.
func ReadAt(fd int, b []byte, off int64) error {
	n, err := unix.Pread(fd, b, off)
	if err == nil && n < len(b) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Reserve takes size bytes of address space without memory behind it.
func Reserve(size uintptr) (unsafe.Pointer, error) {
	p, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		err = fmt.Errorf("reserve %d bytes of address space: %w", size, err)
		if limit, limited := AddressLimit(); limited {
			err = fmt.Errorf("%w; the limit is %d KiB (ulimit -v), hint: ulimit -v unlimited, or a smaller symmetric heap", err, limit>>10)
		}
		return nil, err
	}
	return p, nil
}

// MapShared maps size bytes of fd, from its start, at the address at, over
// whatever is reserved there. Pages are allocated at first touch; to touch what
// lies beyond the end of the file is a fault.
func MapShared(fd int, at unsafe.Pointer, size uintptr) error {
	_, err := unix.MmapPtr(fd, 0, at, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", size, err)
	}
	return nil
}

// Map maps the first size bytes of fd, which it must have, anywhere.
func Map(fd int, size uintptr, writable bool) (unsafe.Pointer, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	p, err := unix.MmapPtr(fd, 0, nil, size, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return p, nil
}

// FileSize returns the size in bytes of the file behind a descriptor.
func FileSize(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("fstat: %w", err)
	}
	return uint64(st.Size), nil
}

// Unmap gives an address range back.
func Unmap(at unsafe.Pointer, size uintptr) error {
	return unix.MunmapPtr(at, size)
}

// MemoryTotal returns the machine's memory in bytes.
func MemoryTotal() (uint64, error) {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 0, fmt.Errorf("sysinfo: %w", err)
	}
	return si.Totalram * uint64(si.Unit), nil
}
