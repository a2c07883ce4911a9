package coll

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// # Direct copies or areas
//
// For direct copies the kernel works for each system call and each page. On some processors that costs less than the
// second copy through an area, on others more. A security module that looks at each access adds to it.
// So two members measure both ways, and keep the faster one. They do so for each class of collectives: an operation, and
// bytes up to the next power of two.
//
//   - The first collectives of a class are trials. Each has the first step of direct copies. Then the data go one way or
//     the other, by the Thue-Morse sequence: a caller that alternates between two or four buffers has each of them both
//     ways.
//   - The member that gets the result measures the time from the first step to its return. It keeps the least time for a
//     byte either way. So a member that was preempted, or memory that was used for the first time, does not count.
//   - In the first step each member tells what it has measured. In the first step after the trials both members decide,
//     by the same four numbers. Then a class for which areas are faster does not begin with that step any more. Other
//     classes are not measured again: their collectives look at no clock.
//
// Both members go the same way. A member counts a first step if it has seen what the other one offers, and neither
// passes. If the other member has not seen or counted that step, one of the two has died or the team is broken. Then no
// later first step has the data of both, so no trial and no decision comes of it.

// directTrials is the number of trials for a class of collectives. It is a power of two: half of them go directly. The
// other ones come to each place of an area at least twice: a member's first access to a page costs more than the copy.
const directTrials = 128

// largeTrials is the number for a class from largeSize on, each of whose collectives comes to all places of an area. A program may make few
// of them, and half of its trials go the slower way.
const (
	largeTrials = 16
	largeSize   = 5 // 1 MiB of a broadcast, 512 KiB of a reduction
)

// trialsOf returns the number of trials of a class.
func trialsOf(class int) int {
	if class%directSizes >= largeSize {
		return largeTrials
	}
	return directTrials
}

// The operations that may be made by direct copies.
const (
	pairBroadcast = iota
	pairReduce
	directOperations
)

// directSizes is the number of classes of an operation. The last one has no upper limit.
const directSizes = 8

// classOf returns the class of an operation on so many bytes, at least so many as least.
func classOf(operation, bytes, least int) int {
	return operation*directSizes + min(bits.Len(uint(bytes/least)), directSizes) - 1
}

// The ways of a trial.
const (
	directly = iota
	throughAreas
)

// trial is what a member knows of a class of collectives.
//
//   - Writes: steps within a collective, least also after it. So least is atomic: a caller may make collectives at the
//     same time by mistake.
type trial struct {
	steps int              // first steps of both members, not more than one more than there are trials
	least [2]atomic.Uint32 // time of either way, in ns for 1 MiB; 0: not measured
}

// times are those of a trial, as one member tells the other one.
type times [2]uint32

func (tr *trial) measured() times {
	return times{tr.least[directly].Load(), tr.least[throughAreas].Load()}
}

// count counts a first step, and returns which way the data go from there. measures reports whether it is a trial. The
// step is also the last one of this class if areas are faster.
func (tr *trial) count(trials int, mine, others times) (way int, measures, last bool) {
	switch k := tr.steps; {
	case k < trials:
		tr.steps++
		return bits.OnesCount(uint(k)) & 1, true, false
	case k == trials:
		tr.steps++
		if shorter(mine[throughAreas], others[throughAreas]) < shorter(mine[directly], others[directly]) {
			return throughAreas, false, true
		}
	}
	return directly, false, false
}

// shorter returns the lesser one of two times, math.MaxUint32 if neither was measured.
func shorter(a, b uint32) uint32 {
	return min(a-1, b-1, math.MaxUint32-1) + 1
}

// lap measures one trial. The zero lap measures nothing.
type lap struct {
	of    *trial
	begun time.Duration
	bytes int
}

// end notes the time of a trial that was made in this way.
func (l lap) end(way int) {
	if l.of == nil {
		return
	}
	took := uint32(min(1+uint64(clock()-l.begun)<<20/uint64(l.bytes), math.MaxUint32))
	if old := &l.of.least[way]; old.Load() == 0 || took < old.Load() {
		old.Store(took)
	}
}

var started = time.Now()

// clock returns the time. Tests change it.
var clock = func() time.Duration { return time.Since(started) }
