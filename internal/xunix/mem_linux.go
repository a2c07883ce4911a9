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
//   - Lifetime: until the last descriptor and the last mapping are closed. It has no name in any file system.
//   - The descriptor is close-on-exec.
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

// SealSize forbids any change of the file's size. So no holder of a descriptor can make accesses to a mapping
// fault.
func SealSize(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	if err != nil {
		return fmt.Errorf("seal %s: %w", f.Name(), err)
	}
	return nil
}

// SealForWriters forbids any change of the file's size, all writes to it, and new writable mappings. A
// writable shared mapping that exists already stays writable: its owner is the only writer from now on.
func SealForWriters(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	if err != nil {
		return fmt.Errorf("seal %s: %w", f.Name(), err)
	}
	return nil
}

// ReadAt reads len(b) bytes of fd from offset off. It fails with io.ErrUnexpectedEOF if there are fewer.
func ReadAt(fd int, b []byte, off int64) error {
	n, err := unix.Pread(fd, b, off)
	if err == nil && n < len(b) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Reserve reserves size bytes of address space without memory. An access to it faults.
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

// MapShared maps the first size bytes of fd at address at, in place of what was reserved there. The kernel
// allocates a page at its first access. An access beyond the end of the file faults.
func MapShared(fd int, at unsafe.Pointer, size uintptr) error {
	_, err := unix.MmapPtr(fd, 0, at, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("map %d bytes at %#x: %w", size, uintptr(at), err)
	}
	return nil
}

// AdviseHuge asks for huge pages in a mapping of shared memory. The kernel heeds it if its setting shmem_enabled is "advise".
func AdviseHuge(at unsafe.Pointer, size uintptr) error {
	if err := unix.Madvise(unsafe.Slice((*byte)(at), size), unix.MADV_HUGEPAGE); err != nil {
		return fmt.Errorf("advise huge pages for %d bytes at %#x: %w", size, uintptr(at), err)
	}
	return nil
}

// Map maps the first size bytes of fd at an address of the kernel's choice. The file must have that size.
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

// Unmap removes the mappings of an address range.
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
