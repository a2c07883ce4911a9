package shmem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// A file of Files has the copy of a PE's objects, of an even or an odd epoch. The other one stays as it is meanwhile.
const (
	fileMagic  = "goshmem checkpoint 1\n"
	fileHeader = 64
)

// fileTable sums files up.
var fileTable = crc32.MakeTable(crc32.Castagnoli)

// fileHead is what a file begins with, behind fileMagic.
type fileHead struct {
	Epoch   uint64
	PE      uint32
	NPEs    uint32
	Size    uint64
	Objects uint32 // a sum of their names and sizes
	Sum     uint32 // of the copy
}

// pathOf returns the path of a PE's file.
func (k *checkpoint) pathOf(pe int, epoch uint64) string {
	return filepath.Join(k.policy.dir, fmt.Sprintf("pe%d.%d", pe, epoch&1))
}

// head returns the head of a PE's file.
func (k *checkpoint) head(pe int, epoch uint64) fileHead {
	sum := crc32.New(fileTable)
	for i := range k.objects {
		fmt.Fprintf(sum, "%q %d\n", k.objects[i].name, k.objects[i].size)
	}
	return fileHead{Epoch: epoch, PE: uint32(pe), NPEs: uint32(k.h.npes), Size: uint64(k.size), Objects: sum.Sum32()}
}

// writeFile writes this PE's file of an epoch.
func (k *checkpoint) writeFile(op string, r *epochMembers) error {
	h := k.head(int(k.h.me), r.epoch)
	data := k.copyOf(r.epoch)
	h.Sum = crc32.Checksum(data, fileTable)
	head := bytes.NewBufferString(fileMagic)
	err := binary.Write(head, binary.LittleEndian, &h)
	path := k.pathOf(int(k.h.me), r.epoch)
	head.Write(make([]byte, fileHeader-head.Len()))
	f, e := os.Create(path + ".new")
	if err = errors.Join(err, e); err != nil {
		return fmt.Errorf("shmem.%s: %w", op, err)
	}
	_, e1 := f.Write(head.Bytes())
	_, e2 := f.Write(data)
	if err := errors.Join(e1, e2, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("shmem.%s: %w", op, errors.Join(err, os.Remove(path+".new")))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("shmem.%s: %w", op, err)
	}
	return nil
}

// errNoFile reports that there is no file of an epoch.
var errNoFile = errors.New("is not there")

// openFile opens the file of a PE, and checks that it belongs to this program. epoch 0 stands for any of the two.
func (k *checkpoint) openFile(pe int, slot, epoch uint64) (*os.File, *fileHead, error) {
	f, err := os.Open(k.pathOf(pe, slot))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, errNoFile
	}
	if err != nil {
		return nil, nil, err
	}
	text, h := make([]byte, fileHeader), fileHead{}
	_, err = io.ReadFull(f, text)
	if err == nil {
		err = binary.Read(bytes.NewReader(text[len(fileMagic):]), binary.LittleEndian, &h)
	}
	want := k.head(pe, h.Epoch)
	want.Sum = h.Sum
	switch {
	case err != nil:
	case string(text[:len(fileMagic)]) != fileMagic:
		err = fmt.Errorf("%s is no file of a checkpoint", f.Name())
	case h != want:
		err = fmt.Errorf("%s is of PE %d of %d and has %d bytes, want PE %d of %d and %d bytes of the same objects in the same order", f.Name(), h.PE, h.NPEs, h.Size, pe, k.h.npes, k.size)
	case epoch != 0 && h.Epoch != epoch:
		err = errNoFile
	default:
		return f, &h, nil
	}
	return nil, nil, errors.Join(err, f.Close())
}

// findFile returns the latest epoch of this PE's files, or 0.
func (k *checkpoint) findFile(op string) (latest uint64, err error) {
	for slot := range uint64(2) {
		f, h, err := k.openFile(int(k.h.me), slot, 0)
		if errors.Is(err, errNoFile) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("shmem.%s: %w", op, err)
		}
		latest = max(latest, h.Epoch)
		_ = f.Close()
	}
	return latest, nil
}

// readOwnFile gives this PE's objects the values of a file.
func (k *checkpoint) readOwnFile(op string, epoch uint64) error {
	data := make([]byte, k.size)
	if err := k.readFile(op, data, 0, int(k.h.me), epoch); err != nil {
		return err
	}
	return k.writeObjects(op, data)
}

// readFile reads bytes of a PE's file, from a place in the copy on. It checks all of the file.
func (k *checkpoint) readFile(op string, dst []byte, at, pe int, epoch uint64) error {
	if pe < 0 || pe >= k.h.npes {
		return usage(op, ErrPERange, "PE %d, want 0 to %d", pe, k.h.npes-1)
	}
	f, h, err := k.openFile(pe, epoch, epoch)
	if err != nil {
		return fmt.Errorf("shmem.%s: epoch %d of PE %d in %s: %w", op, epoch, pe, k.policy.dir, err)
	}
	defer func() { _ = f.Close() }()
	sum := crc32.New(fileTable)
	if n, err := io.Copy(sum, f); err != nil || uint64(n) != h.Size || sum.Sum32() != h.Sum {
		return fmt.Errorf("shmem.%s: %s is damaged: %d bytes with the sum %#x, want %d with %#x: %w", op, f.Name(), n, sum.Sum32(), h.Size, h.Sum, errors.Join(err, io.ErrUnexpectedEOF))
	}
	if _, err := f.ReadAt(dst, int64(fileHeader+at)); err != nil {
		return fmt.Errorf("shmem.%s: %w", op, err)
	}
	return nil
}
