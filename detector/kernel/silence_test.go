//go:build linux

package kernel

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/xunix"
)

// TestDeadWriteNothing kills processes whose threads write to shared memory all the time, by their
// own instructions or by a system call that no signal interrupts. After Dead nothing more is
// written, neither with the programs for this kernel nor with those for kernels before 6.16.
func TestDeadWriteNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    Config
		victim string
		runs   int
	}{
		{"now", Config{Tier: BPF}, "count", 50},
		{"now, in the kernel", Config{Tier: BPF}, "copy", 50},
		{"before 6.16", Config{Tier: BPF, early: true, alone: true}, "count", 500},
		{"before 6.16, in the kernel", Config{Tier: BPF, early: true, alone: true}, "copy", 500},
		{"pidfd", Config{Tier: PIDFD}, "copy", 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cfg.Tier == BPF {
				testenv.Need(t, testenv.EBPF)
			}
			m := newMemory(t)
			l := newLog()
			c.cfg.Logger = zerolog.New(zerolog.NewTestWriter(t))
			c.cfg.Report = func(r Report) {
				if r.Kind == Dead {
					m.look()
				}
				l.add(r)
			}
			w, err := Open(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			early := 0
			if testing.Short() {
				c.runs /= 5
			}
			for i := range uint64(c.runs) {
				v := spawn(t, c.victim, strconv.Itoa(countThreads), m.name)
				if err := w.Add(v.pid(), i); err != nil {
					t.Fatal(err)
				}
				xunix.Kill(v.pid(), syscall.SIGKILL)
				dead, released := l.awaitEnd(t, i)
				wantStatus(t, dead, v.reap())
				if was, is := m.atDeath(), m.read(); was != is {
					t.Fatalf("run %d: the counters were %v at Dead and are %v now, want no change", i, was, is)
				}
				if dead.At != 0 && (released.At == 0 || dead.At < released.At) {
					early++
				}
				clear(m.bytes)
			}
			t.Logf("%d of %d deaths had a time of their own", early, c.runs)
		})
	}
}

// countThreads is more than the number of processors of a small machine, so some threads run and
// others do not.
const countThreads = 4

// memorySize is the size of the memory that the victims map.
const memorySize = 64 << 10

// memory is a file that victims write to, and its contents at the last death.
type memory struct {
	name  string
	bytes []byte
	mu    sync.Mutex
	dead  [countThreads]uint64
}

func newMemory(t *testing.T) *memory {
	t.Helper()
	m := &memory{name: filepath.Join(t.TempDir(), "counters")}
	if err := os.WriteFile(m.name, make([]byte, memorySize), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(m.name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := syscall.Mmap(int(f.Fd()), 0, memorySize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	m.bytes = b
	return m
}

func (m *memory) read() (all [countThreads]uint64) {
	for i := range all {
		all[i] = binary.NativeEndian.Uint64(m.bytes[64*i:])
	}
	return all
}

func (m *memory) look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = m.read()
}

func (m *memory) atDeath() [countThreads]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}
