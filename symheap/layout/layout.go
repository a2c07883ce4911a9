// Package layout declares every word that processes of a job share: the
// header and the control region at the start of each PE's segment. Nothing
// else in the project may define shared memory.
//
// A segment is one sealed memfd per PE. It begins with the Control structure
// below and goes on with the regions that its header lists; the symmetric
// heap is one of them. All offsets are in bytes from the segment's start and
// are fixed by Version: programs in other languages may rely on them.
//
//	offset      size     what                    written by      read by
//	0           4096     Header                  step, once      every PE, once
//	4096        64       Progress                owner           step, for --hang-timeout
//	4160        64       Reach                   owner, once     PEs that exchange long messages with it
//	4224        64       Checks                  owner, once     every PE
//	8128        64       Bell.Sleeping           owner, wakers   every PE after each put
//	8192        4096     Heap (allocator)        owner           owner
//	12288       4096     Teams[64]               owner           owner
//	16384       512 Ki   Arrive[64][1024]        members         members of that team
//	540672      1 Mi     Slots[64][2][8192]      owner           members of that team
//	1589248     2 Mi     Blocks[65536]           owner           owner
//	3686400     8192     Votes[64][2]            owner           members of that team
//	3694592     128      Callers[16]             other PEs       owner
//	3698688     2 Mi     Lanes                   see below       see below
//	5795840     512 Ki   Entries[64][128]        members         members of that team
//	6320128     1920 Ki  Area                    owner           members of one of its teams
//	8286208     64 Ki    LaneHeads[1024]         see below       see below
//	8351744     32 Ki    Shares[512]             see below       see below
//
// A job has one failure page on each node, a memfd of its own that only the step
// can write to: it is sealed against any writable mapping but the step's first.
// It says which PEs have died.
//
//	offset      size     what                    written by      read by
//	0           64       FailureHeader           step, once      every PE, once
//	64          64       Epoch                   step            every PE that waits
//	128         32 each  Failure of each PE      step            every PE that saw a new Epoch
//
// # Order
//
// Header: written before the descriptor is handed out; the socket that passes
// it orders the writes. Never written again.
//
// Bell.Sleeping: the owner sets BellAsleep, executes a process-wide barrier
// (membarrier), looks at its data once more and sleeps on the word while it
// stays as it is. Whoever has written data for the owner loads the word afterwards
// and, if BellAsleep is set, clears it and wakes. With BellAsleep comes a number, another
// one each time, and goes with it: of several goroutines of the owner, one that is about to sleep
// finds another word when the bell was rung and armed again meanwhile. The writer needs no barrier between its
// data and its load, because the owner's membarrier supplies it: either the
// writer's load comes after the membarrier and sees 1, or its data came
// before and the owner's second look sees it. Package rma has the code. BellAsk is
// set, for good, by an owner who has no membarrier and by a writer whom none
// reaches, before its first write: who finds it loads the word once more behind a
// locked instruction.
//
// Entries[t], and Arrive[t] of teams with more members than that has room for: of each
// member i, the sequence number of the latest step of team t that it has entered, the
// arrival word. It lies in
// the segment of the team's first member on the node, is written by member i
// alone, but for the first member before the group is made (coll, group.go), and read by
// all members with an acquire load. Where one who
// enters looks whether everybody has, the store is sequentially consistent, so
// that of several that arrive together at least one sees all; otherwise it is a
// release. It only grows, until bit 63 marks that the member has left the team
// for good; Init after Finalize takes the mark back. Who waits for a member to
// enter a step has entered that step before, so who sets the mark rings those
// whose words are beyond its own: its swap orders the mark before its looks at
// them, as arming the bell orders a sleeper's word before its last look at the
// mark.
//
// Entry.Data[seq%2]: member i's contribution to step seq, if it is so small: on the line
// that all members look at anyway. Plain stores before the member's store to its arrival
// word, plain loads behind a look at that; when it is written again, is as with slots.
//
// Slots[t][seq%2]: the owner's contribution to step seq of team t: a cell of it
// (the number of which is seq/2%SlotCells), or the whole slot if it is larger.
// Plain stores before the owner's store to its arrival word (release), plain loads by
// members after they saw that store (acquire). A cell that was written for step
// s is written again only after its owner saw everyone enter step s+1: a PE that
// has entered s+1 has finished reading what belongs to s, so no reader is left.
// As consecutive steps have different slots, that is no later than step s+2.
//
// Bit 62 of an arrival word marks that the member has given the team up: it enters
// no further step. Bit 61, beside bit 62, marks that it did so in the last step of a
// collective in which others may still read its source.
//
// Team.Part: how far the owner has got with its part of a large reduction, for those
// who finish it when the owner has died; until then nobody reads it. Stores in
// program order are enough: a process is killed between two instructions, so that
// what it leaves in memory is what it had stored up to one of them. In a large exchange
// it says whose blocks the owner has, one bit for each; members that give it theirs load it, and give
// a block twice if they miss a bit.
//
// Votes[t][seq%2]: the owner's vote in agreement seq of team t. Flags and Epoch are
// written before Seq (sequentially consistent, as arrival words, with the same marks) and
// read behind it. A vote is written again two agreements later, when its owner has
// seen everybody who lives enter the one between: as with slots, no reader is left.
//
// Callers: bit i%64 of word i/64 says that PE i has used its lane here. Set once by PE
// i, by a locked instruction before its first message, for good: the owner looks at
// the lanes of callers only.
//
// Lanes and LaneHeads: ShapeOfLanes says how the lanes are cut; lane i, with head i, has the
// messages of PE i, which alone writes Want, cells and data. Number k, from 1 on, is written to cell
// (k-1)%Cells: the message first, with plain stores, then its Mark (release), whose
// low half is k. The owner, which waits for k, looks at that word alone (acquire): a
// cell holds nothing but cells, so an older one there has a smaller number, and what a
// sender had not finished when it died is never seen. When the owner has
// read a message, it stores Data and then Cells (both release). The sender writes
// a cell again, and the data in front of Data, after it has read Cells and then Data
// (acquire), so no reader is left. A sender that finds no room sets Want before it
// arms its own bell; the owner, having stored Cells, looks at the bell of the sender,
// and if it is set, at Want, and rings. So, as for data at the bell, either the owner
// sees both or the sender its room.
//
// Shares: the owner is the sender of a message. It stores Copied and then Turn before it writes
// the cell that announces the message, and lends the share to no other message until the receiver
// has sent word that it is done with it, or is dead.
// In between both change Turn by compare-and-swap only (sequentially consistent): to take a
// part on, which is then theirs alone to copy, and to change the state, which is Open no more
// then. The sender, behind having copied a part, stores Copied (release); the receiver has the
// message when all parts are taken on, it has copied its own, has found all of the sender's in Copied
// (acquire), and has then changed the state from Open to Taken. As the sender does not touch its buffer before it
// is Taken or Revoked, what the receiver has then is the message. Turn names the message, by what
// differs between two that have the share: a process that looks at the share of an
// earlier one, as the thread of a dying process may for a moment, changes nothing.
//
// Reach: written by the owner before its first message, so that whoever has got one, and is
// the only one to look, finds it.
//
// Checks: the owner stores Asked before it enters the PMIx fence of Init. Behind that fence,
// which orders the two, every PE loads the words of all, so that all find the same checks. The
// owner stores it again at its next Init, the same word unless its environment has changed
// since; by then the others have met it in a collective, for which they had loaded the words.
// PID is stored once, before that fence; PEs whose yields are long load it, and ask the kernel for
// the processor time of that process. 0: not known yet.
//
// Area: what the owner gives to a large reduction of private memory, of one team at a
// time, and its part of the result. Plain stores before the owner's store to Arrive
// (release), plain loads by members after they saw that store (acquire). It is cut into
// two places or more, for the pieces by turns: one is written again when its owner saw everyone
// enter the step behind that in which it was read. Its last StreamSize bytes are for the pieces of a large
// broadcast of private memory whose root the owner is, also of one team at a time, in the same
// order. Package coll has the steps.
//
// Epoch and Failure: only the step writes them. A PE is dead if Failure.Incarnation
// is its incarnation or a later one; that word only grows. To publish a death, the
// step stores 0 in Failure.Epoch (release), then Cause, At, Stored and Incarnation,
// then the number of the publication in Failure.Epoch (release), and at last the
// same number in the page's Epoch (sequentially consistent), which so counts
// publications. Who has read an epoch (acquire) finds all deaths up to it. A reader
// of a whole Failure reads its Epoch before and after the other words: if it is 0
// or has changed, that failure is being replaced by one of a later incarnation,
// which a later epoch of the page will tell of.
//
// Behind its store to the page's Epoch the step looks at the bells of all PEs, with
// sequentially consistent loads. A sleeper looks at the page's Epoch after it has
// set its bell by a locked instruction. All four are sequentially consistent, so
// either the step sees the bell or the sleeper the epoch; membarrier has no part
// in this, as the step need not be reached by it.
//
// Teams[t].Used: written by the owner, read by the members of the group that it
// names, with sequentially consistent stores and loads. As groups on one id begin at
// ever greater sequence numbers, a member for which it once did not name the group
// any more has stopped using that for good.
//
// Teams[t].Call: stored by the owner (release), the earlier one first, before it enters the first
// step of a large collective; read (acquire), the latest one first, by members behind their look at
// its arrival word there and before they return. The owner waits for them to enter a step of
// that collective before it returns, so it is one call ahead of them at most.
//
// Teams[t].Offer: stored by the owner before it enters an agreement of team t (which
// orders it), read by those who have left that one and not entered the next.
//
// Teams[t].Seq: written by the owner; members of a team that all had left read it between
// two barriers, where it becomes nothing but the greatest that any has (coll.Rejoin).
//
// Teams, Heap, Blocks, Progress: written by the owner only. They stand here
// rather than in the owner's private memory so that a successor that takes
// over the PE's number finds them.
package layout

import (
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/alloc"
)

// The constants of the layout; a change of any one changes Version.
const (
	Magic = 0x4d454d48534f47 // "GOSHMEM", little endian
	// FailureMagic begins a failure page.
	FailureMagic = 0x4c494146534f47 // "GOSFAIL", little endian
	Version      = 15

	MaxRegions = 8
	MaxTeams   = 64
	MaxLocal   = 1024 // PEs on a node
	MaxBlocks  = 65536
	SlotSize   = 8192
	SlotCells  = 32 // of a slot, for contributions that fit into one
	MaxEntries = MaxLocal / 8
	EntrySize  = 24         // bytes of a contribution that fits beside an arrival word
	AreaSize   = 1920 << 10 // for large data of collectives, see coll
	StreamSize = 1 << 20    // of that, the end, for broadcasts; more than most private caches

	ControlSize = 8 << 20 // bytes reserved for Control; regions follow

	// Align is the alignment of regions and of a segment's place in the
	// node's address range: the size of a huge page.
	Align = 2 << 20
)

// The kinds of regions.
const (
	RegionControl = 1
	RegionHeap    = 2
)

// Region is one entry of the list in a segment's header.
type Region struct {
	Kind uint32
	_    uint32
	Off  uint64
	Size uint64
}

// Header identifies a segment.
type Header struct {
	Magic       uint64
	Version     uint32
	PE          uint32
	NPEs        uint32
	Incarnation uint32
	Size        uint64 // of the whole segment
	Job         [16]byte
	NRegions    uint32
	_           uint32
	Regions     [MaxRegions]Region
}

// Bell is the doorbell of a PE, alone on its cache line.
type Bell struct {
	Sleeping uint32
	_        [60]byte
}

// The bits of Bell.Sleeping.
const (
	BellAsleep = 1 << iota // the owner sleeps or is about to
	BellAsk                // a look counts only behind a locked instruction

	BellBits = iota // so many; those above are the number
)

// Progress tells the step that a PE goes on. It is alone on its cache line. Plain
// stores will do: that Count moves, and whether Meets is 0, is all that counts.
type Progress struct {
	Count uint64 // moves at each call that may wait; 0 until Init has met the other PEs
	Meets uint64 // 1 while the PE waits for the PMIx server or the kernel, where its bell is not armed
	Calls uint64 // 1 after each call that does not wait; the step sets it to 0 when it has seen it
	_     [40]byte
}

// Checks says which mistakes of the program the PEs are to look for, and whose segment it is. It is
// alone on its cache line.
type Checks struct {
	Asked uint64 // the checks that this PE asks for; each is made if any PE does
	PID   uint64 // of the PE's process
	_     [48]byte
}

// The checks.
const (
	CheckCollectives = 1 << iota // that all members of a team call the same collective
)

// Team is what a PE keeps of one of its teams.
type Team struct {
	Seq   uint64    // sequence number of the latest collective entered
	Part  uint64    // what is done of a part of a large reduction: board.Logged or board.Pushed of a piece; or whose blocks of a large exchange it has, a bit each
	Used  uint64    // 0: the id is free here; otherwise the sequence number at which the group began that has it, and TeamReleased
	Offer uint64    // what survivors of the team tell each other about the one that they make
	Call  [2]uint64 // which large collective it has called last, and before, with what
	_     [16]byte
}

// Entry is a member's arrival word and what it contributes to small steps, alone on
// their cache line.
type Entry struct {
	Seq  uint64 // the arrival word
	Data [2][EntrySize]byte
	_    uint64
}

// Vote is what a PE says in an agreement, alone on its cache line.
type Vote struct {
	Seq   uint64 // number of the agreement
	Flags uint64
	Epoch uint64 // of the failure page, when it was called
	_     [40]byte
}

// TeamReleased marks in Team.Used that the PE has stopped using the group.
const TeamReleased = 1 << 63

// Control is the start of every segment.
type Control struct {
	Header    Header
	_         [4096 - HeaderBytes]byte
	Progress  Progress
	Reach     Reach
	Checks    Checks
	_         [4096 - 256]byte
	Bell      Bell
	Heap      alloc.Header
	_         [4096 - unsafe.Sizeof(alloc.Header{})]byte
	Teams     [MaxTeams]Team
	Arrive    [MaxTeams][MaxLocal]uint64
	Slots     [MaxTeams][2][SlotSize]byte
	Blocks    [MaxBlocks]alloc.Entry
	Votes     [MaxTeams][2]Vote
	Callers   [MaxLocal / 64]uint64
	_         [4096 - MaxLocal/8]byte
	Lanes     [LanesSize]byte
	Entries   [MaxTeams][MaxEntries]Entry
	Area      [AreaSize]byte
	LaneHeads [MaxLocal]Lane
	Shares    [Shares]Share
}

// ArriveWords returns where the arrival words of a team of so many members begin in the
// segment of its first member, and how many bytes lie between two: a cache line,
// with room for small contributions, unless so many lines do not fit.
func (c *Control) ArriveWords(team, members int) (first unsafe.Pointer, stride uintptr) {
	if members <= MaxEntries {
		return unsafe.Pointer(&c.Entries[team]), unsafe.Sizeof(Entry{})
	}
	return unsafe.Pointer(&c.Arrive[team]), 8
}

// HeaderBytes is the size of Header.
const HeaderBytes = 8 + 4*4 + 8 + 16 + 8 + MaxRegions*24

// BellOffset is where a segment's sleeping word is: at the end of its page,
// because objects tend to begin at the start of one, and a processor that
// compares addresses by their last 12 bits would take the look at the bell for
// a load of what was just stored.
const BellOffset = 8192 - 64

// HeapOffset is where the symmetric heap begins in a segment.
const HeapOffset = ControlSize

// SegmentSize returns the size of a segment whose symmetric heap has at least
// heap bytes: the heap is rounded up to Align.
func SegmentSize(heap uint64) (uint64, error) {
	const limit = 1 << 46 // what an address range can hold for a few PEs
	if heap == 0 || heap > limit {
		return 0, fmt.Errorf("symmetric heap of %d bytes, want 1 to %d", heap, uint64(limit))
	}
	return ControlSize + (heap+Align-1)/Align*Align, nil
}

// NewHeader returns the header of the segment of one PE.
func NewHeader(job [16]byte, pe, npes, incarnation uint32, size uint64) Header {
	h := Header{
		Magic: Magic, Version: Version, PE: pe, NPEs: npes, Incarnation: incarnation,
		Size: size, Job: job, NRegions: 2,
	}
	h.Regions[0] = Region{Kind: RegionControl, Off: 0, Size: ControlSize}
	h.Regions[1] = Region{Kind: RegionHeap, Off: HeapOffset, Size: size - HeapOffset}
	return h
}

// Check reports whether h is the header of the segment of PE pe of the job.
func (h *Header) Check(job [16]byte, pe uint32, size uint64) error {
	switch {
	case h.Magic != Magic:
		return fmt.Errorf("segment of PE %d: magic %#x, want %#x: not a goshmem segment", pe, h.Magic, uint64(Magic))
	case h.Version != Version:
		return fmt.Errorf("segment of PE %d: layout version %d, want %d: oshrun and the program were built from different versions", pe, h.Version, Version)
	case h.Job != job:
		return fmt.Errorf("segment of PE %d belongs to job %x, want %x", pe, h.Job, job)
	case h.PE != pe:
		return fmt.Errorf("segment of PE %d says that it is of PE %d", pe, h.PE)
	case h.Size != size:
		return fmt.Errorf("segment of PE %d has %d bytes, want %d", pe, h.Size, size)
	}
	return nil
}
