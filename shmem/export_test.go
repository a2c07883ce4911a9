package shmem

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Asleep says whether a PE sleeps in a wait.
func Asleep(w *World, pe int) bool {
	return atomic.LoadUint32(&w.s.h.job.Map.Control(pe).Bell.Sleeping)&layout.BellAsleep != 0
}

// Noticed says whether this process knows of a death and its data path is closed.
func Noticed(w *World) bool { return w.s.h.wary.Load() }
