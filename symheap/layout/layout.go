// Package layout declares every word that processes of a job share: the header and
// the control region at the start of each PE's segment, and the failure page. No other
// package of the project may define shared memory.
//
// A segment is one sealed memfd per PE. It begins with the Control structure below,
// followed by the regions that its header lists; the symmetric heap is one of them.
// All offsets are in bytes from the segment's start. Version fixes them, so programs
// in other languages may rely on them.
//
//	offset      size     what                    written by      read by
//	0           4096     Header                  step, once      every PE, once
//	4096        64       Progress                owner           step, for --hang-timeout
//	4160        64       Reach                   owner, once     PEs that exchange long messages with it, or large data
//	4224        64       Process                 owner, once     every PE
//	4288        512      Voted[64]               members, once   members of that team
//	4800        128      Asked[16]               PEs             every PE
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
// In a job of several nodes, a Wire of 4 MiB lies behind the heap. It connects the PE with the agent of its
// node. The offsets are from the region's start.
//
//	offset      size     what                    written by      read by
//	0           64       Tail                    owner           agent
//	64          1024     Ready[256]              owner           agent
//	1088        16 Ki    Done[2][1024]           agent           owner
//	17472       16 Ki    Slots[256]              both            owner
//	33856       512 Ki   Rooms[256][2048]        agent           owner
//	558144      512 Ki   Pieces[8][65536]        agent           owner
//	1086528     1 Mi     Blocks[256]             see below       agent
//	2135104     256 Ki   Inbox                   see below       see below
//	2621440     1096 Ki  Upper                   see Upper       see Upper
//
// An agent's page is a memfd of its own, which the PEs of its node map.
//
//	offset      size     what                    written by      read by
//	0           64       Bell.Sleeping           agent, wakers   every PE that queues a block
//	4096        8192     Parts[1024]             step, once      every PE, once
//
// A job has one failure page on each node, a memfd of its own. Only the step can write
// it: the page is sealed against any writable mapping but the step's first one. It says
// which PEs have died.
//
//	offset      size     what                    written by      read by
//	0           64       FailureHeader           step, once      every PE, once
//	64          64       Epoch                   step            every PE that waits
//	128         32 each  Failure of each PE      step            every PE that saw a new Epoch
//	128+32*NPEs 4096     FailureLog              step            every PE that asks for deaths since an Epoch
//
// # Order
//
// Header: written before the descriptor is handed out, and never again. The socket that
// passes the descriptor orders the writes.
//
// Bell.Sleeping: the owner sets BellAsleep, executes a process-wide barrier (membarrier),
// looks at its data once more, and sleeps while the word does not change. A PE that has
// written data for the owner loads the word afterwards. If BellAsleep is set, it clears the
// word and wakes the owner. The writer needs no barrier between its data and its load,
// because the owner's membarrier supplies it. Either the writer's load comes after the
// membarrier and sees BellAsleep, or the data came before it and the owner's second look
// sees them. Package rma has the code.
//
// The bits above BellBits are a number that changes each time BellAsleep is set, and that is
// cleared with it. So, of several goroutines of the owner, one that is about to sleep finds
// a different word if the bell was rung and armed again in the meantime.
//
// BellAsk is used when either side cannot use membarrier. An owner without membarrier, or a
// writer that membarrier does not reach, sets it for good before its first write. A writer
// that finds it loads the word once more after a locked instruction.
//
// Arrival words, in Entries[t], or in Arrive[t] for teams with more members than Entries[t]
// has room for: the word of member i holds the sequence number of the latest step of team t
// that the member has entered. The words lie in the segment of the team's first member on
// the node. Member i alone writes its word, except that only the first member writes words
// before the group is made (coll, group.go). All members read them with acquire loads. If a
// member that enters a step then looks whether all have arrived, its store is sequentially
// consistent, so that of several members that arrive together at least one sees all.
// Otherwise the store is a release.
//
// An arrival word only grows, until bit 63 marks that the member has left the team for good;
// Init after Finalize takes the mark back. A member that waits for another one to enter a
// step has entered that step itself. So a member that sets the mark rings the members whose
// words are greater than its own. Its swap orders the mark before its looks at these words,
// as arming the bell orders a sleeper's word before its last look at the mark.
//
// Bit 62 of an arrival word marks that the member has given the team up: it enters no
// further step. Bit 61, beside bit 62, marks that it did so in the last step of a collective
// in which others may still read its source.
//
// Entry.Data[seq%2]: member i's contribution to step seq, if it is small enough. It shares
// the cache line of the arrival word, which all members read anyway. Plain stores before the
// member's store to its arrival word; plain loads after a load of that word. The rule for
// writing it again is that of Slots.
//
// Slots[t][seq%2]: the owner's contribution to step seq of team t. It is one cell of the slot,
// or the whole slot if it is larger than a cell (coll/board.Cell). Plain stores before the owner's
// store to its arrival word (release); plain loads by members after they saw that store
// (acquire). A cell that was written for step s is written again only after its owner saw
// all members enter step s+1. A PE that has entered s+1 has finished reading the
// contributions to s, so no reader is left. Consecutive steps use different slots, so this
// is the case at step s+2 at the latest.
//
// Team.Part: how much of its part of a large reduction the owner has done, for the members
// that finish it after the owner's death; until then no member reads it. Stores in program
// order are enough: a process is killed between two instructions, so memory holds all its
// stores up to one of them. In a large exchange by turns the word has one bit for each member
// that the owner has found there: whose blocks it moves. Other members load it; if they miss
// a bit, they move blocks twice.
//
// Team.Home: the owner stores half n%2 (release) before it enters exchange by turns number n of
// the team, for exchange n+1. All members read it there. The owner stores that half again in exchange
// n+2, which it enters when all living members are through with n+1. Of the first member they also read whether
// the team is to have homes from exchange n+2 on (the highest bit).
//
// Team.Still: the owner stores the step (release), looks for members that enter it, stores 0
// (sequentially consistent) and looks once more. A member that enters the step and then loads
// the word finds 0, or the owner finds the member.
//
// Votes[t][seq%2]: the owner's vote in agreement seq of team t. Flags and Epoch are written
// before Seq and read after it; Seq is sequentially consistent and has the marks of arrival
// words. A vote is written again two agreements later, after its owner has seen all live
// members enter the agreement between. As with Slots, no reader is left then.
//
// Callers: bit i%64 of word i/64 means that the PE with index i on the node (Local) has used its
// lane here. That PE sets it once, for good, by a locked instruction before its first message. The owner looks only at the
// lanes of callers.
//
// Lanes and LaneHeads: ShapeOfLanes returns the shape of the lanes. Lane i, with head i,
// carries the messages of the PE with index i on the node, the only writer of Want, cells and data. Message cell number
// k, from 1 on, is written to cell (k-1)%Cells: first its content, with plain stores, then
// its Mark (release), whose low half is k. The owner waits for k by loading that word alone
// (acquire). A cell never holds anything but cells, so an older one in it has a smaller
// number, and a cell that a sender had not finished when it died is never seen.
//
// When the owner has read a message, it stores Data and then Cells (both release). The
// sender loads Cells and then Data (acquire) before it writes a cell again, or the data in
// front of Data, so no reader is left. A sender without room sets Want before it arms its own
// bell. The owner, after its store to Cells, looks at the sender's bell; if it is set, the
// owner looks at Want, and rings. As for data and the bell, either the owner sees both or the
// sender sees its room. Hold: the owner writes it, the sender loads it with Cells, and while it is set before each message (all
// sequentially consistent). It orders nothing: a sender that has not seen it sends what fits the lane.
//
// Passage, which is not in a segment: Callers, LaneHeads and Lanes are as here, between PEs of two jobs, which map each other's segments, too. Gone: the
// owner stores it (sequentially consistent) behind its last message. A PE of the other job that has loaded it reads the lane from the owner
// once more, and finds all of these.
//
// Shares: the owner is the sender of a message. It stores Copied and then Turn before it
// writes the cell that announces the message. It gives the share to no other message until
// the receiver has sent word that it is done with it, or is dead. In between, both sides
// change Turn only by compare-and-swap (sequentially consistent), for two purposes: to take
// a part, which that side alone then copies, and to change the state from Open. The sender
// stores Copied (release) after it has copied a part. The receiver has the message when
// these hold, in this order: all parts are taken; it has copied its own; it has found all of
// the sender's in Copied (acquire); it has changed the state from Open to Taken. The sender
// does not touch its buffer before the state is Taken or Revoked, so what the receiver has
// is the message. Turn contains the number of the message, which differs between two uses of
// the share. So a process that looks at an earlier use, as the thread of a dying process may
// for a moment, changes nothing.
//
// Reach: written by the owner before its first message and its first collective of package
// mpi. Read only by receivers of messages, and by members of a team of two that the owner
// has met in a step, so that every reader finds it.
//
// Process: the owner stores PID once, before it enters the PMIx fence of Init, which orders the store. PEs whose yields
// take long load it, and ask the kernel for the processor time of that process.
//
// Asked: bit i%64 of word i/64 says that the PE with index i on the node asks for the check of collectives. The
// words are in the segment of the node's first PE. Each PE changes its own bit, by a locked instruction, before it
// enters the fence of Init. After the fence every PE loads the words, so all find the same. The bit changes again at
// the next Init, if the environment has changed. By then the other PEs have met the PE in a collective, before which
// they had loaded the words. If each PE had a word in its own segment, every PE would look at a page of every other
// one, and that first look is dear.
//
// Voted[t]: a member stores 1 before its first vote in an agreement of team t, for good (sequentially consistent). The
// word lies in the segment of the team's first member on the node. A member that leaves the team sets its mark, then
// loads this word, and looks at the votes of others only if it finds 1. So either it finds a member that votes, or that
// member finds the mark before it sleeps. Most teams never vote, and here, too, the first looks would be dear.
//
// Area: what the owner contributes to a large reduction of private memory, of one team at a
// time, and its part of the result. Plain stores before the owner's store to its arrival
// word (release); plain loads by members after they saw that store (acquire). It is cut into
// two or more places, which hold the pieces by turns. A place is written again after its
// owner saw all members enter the step after the one in which it was read. The last
// StreamSize bytes hold the pieces of a large broadcast of private memory whose root the
// owner is, also of one team at a time and in the same order. Package coll has the steps.
//
// Epoch and Failure: only the step writes them. A PE is dead if Failure.Incarnation is its
// incarnation or a later one; that number only grows. To publish a death, the step stores:
//
//  1. 0 in Failure.Epoch (release);
//  2. Cause, At, Stored and Incarnation, this one with FailureFresh;
//  3. the number of the publication in Failure.Epoch (release);
//  4. the PE and the same number in the FailureLog, in the place of position Count, and
//     then Count+1 in Count (all sequentially consistent);
//  5. the same number in the page's Epoch (sequentially consistent), which thus counts
//     publications;
//  6. Incarnation without FailureFresh.
//
// The deaths of a lost node have one number: the step does 1 to 4 for each of its PEs, then
// 5, and then 6 for each.
//
// An epoch may begin without a death: then the page of another job has a new one, with whose PEs those of this job exchange messages.
//
// Who finds an incarnation fresh does not take it for dead before the page's Epoch has reached
// Failure.Epoch. So a PE that is found dead is found by readers of the deaths up to an epoch, too:
// an error that names a PE, and a list of the dead that is taken later, agree. The mark hides no
// earlier incarnation, since each is less than the latest one.
//
// A reader that has loaded an epoch (acquire) finds all deaths up to it. A reader of a whole
// Failure loads its Epoch before and after the other words. If it is 0 or has changed, the
// step is replacing the failure by one of a later incarnation, which a later epoch of the
// page announces.
//
// FailureLog: a reader of the deaths between two epochs has loaded the later one. It then
// loads Count, so all deaths up to that epoch have positions below Count, and Epoch grows with
// the position. The reader goes from Count-1 down to the first death that is not newer than the
// earlier epoch, or to position 0. It skips deaths that are newer than the later epoch, and
// those whose Failure has another Epoch by now: they were replaced by one of a later
// incarnation, with a position of its own. Last, it loads Count again. The step writes the
// place of position k again for position k+LogLength, when Count is k+LogLength. All these
// accesses are sequentially consistent, so a reader that has loaded one of the new words
// then finds Count at k+LogLength or more. If Count is less for the lowest position that it
// has read, all that it has read was there as one. Otherwise the log was too short, and the
// reader looks at the Failures of all PEs.
//
// After its store to the page's Epoch the step looks at the bells of all PEs, with
// sequentially consistent loads. A sleeper sets its bell by a locked instruction, and then
// looks at the page's Epoch. All four accesses are sequentially consistent, so either the
// step sees the bell or the sleeper sees the epoch. Membarrier has no part in this, because
// it need not reach the step.
//
// Teams[t].Used: written by the owner and read by the members of the group that it names,
// with sequentially consistent stores and loads. Groups with one id begin at ever greater
// sequence numbers. So once the word of a member does not name a group any more, that member
// has stopped using the group for good. This is what makes reusing an id safe.
//
// Teams[t].Call: stored by the owner (release), the earlier call first, before it enters the
// first step of a large collective. Members read it (acquire), the latest call first, after
// their look at the owner's arrival word of that step and before they return. The owner
// waits for them to enter a step of the collective before it returns, so it is at most one
// call ahead of them.
//
// Teams[t].Offer, Floors[t]: stored by the owner before it enters an agreement of team t, which orders
// the stores. Members that have left that agreement and not entered the next one read them.
//
// Teams[t].Seq: written by the owner. When all members had left a team, they read it between
// two barriers, and it becomes the greatest number that any of them has (coll.Rejoin). The owner
// stores it after Used when it makes a group. So a member that finds the number there at which the
// group begins, or a greater one, knows that the owner claims the id no more (coll.Founding).
//
// Teams, Heap, Blocks, Progress: written by the owner only. They are here rather than in the
// owner's private memory so that a successor that takes over the PE's number finds them.
//
// # Order between a PE and its agent
//
// The owner of a Wire writes it under one lock of its process, so the words have two sides: the
// PE and the agent. A stream is the records of one PE to one node in one class. Its records
// have numbers: 0, 1, 2, and so on.
//
// Block.Node, Class, First and Closed: the PE stores them before the block's first Fill of a
// use. The agent reads them after it has found the block in Ready. Node, Class and First
// together name the use, because First grows from one use to the next of a stream.
//
// Block.Fill: the PE writes whole records into Body, then stores Fill (release). The agent
// loads Fill (acquire), and sends what lies between the Fill that it has seen before and this
// one. A PE that dies inside a record has sent nothing of it.
//
// Block.State: the PE loads it after its store to Fill. Unless it is BlockQueued, the PE
// changes it to BlockQueued by compare-and-swap, and tries again if the agent was faster. Then
// it puts the block into Ready. When the agent has seen all of a block, it stores BlockLeaving,
// executes membarrier and loads Fill again. If Fill has grown, the agent changes BlockLeaving
// to BlockQueued and goes on with the block; otherwise it changes BlockLeaving to BlockIdle.
// Both are compare-and-swaps. If one fails, the PE has put the block into Ready, and the agent
// finds it there.
//
// As for the bell, membarrier supplies the barrier between the PE's store to Fill and its load
// of State. So the PE finds BlockLeaving or BlockIdle, or the agent finds the records. Both may
// be the case. Then the block is in Ready without anything new in it, which is why its reuse
// depends on State, too. If the kernel leaves the barrier out (xunix.Membarrier), neither may be the case: the block is
// BlockIdle with a record that the agent has not seen. So the agent looks back at blocks that it has left, and changes BlockIdle to
// BlockQueued by compare-and-swap if Fill has grown in the same use: when a record is missing, and once after some time.
//
// Ready and Tail: the PE stores the block's number, then Tail (sequentially consistent). The
// agent loads Tail (acquire). A block is in Ready once at most, because its State is BlockQueued from before the
// entry until the agent has read it. So at most 256 entries are unread, and none is
// overwritten.
//
// Agent's Bell.Sleeping: the PE loads it after its store to Tail. If BellAsleep is set, it
// clears the word and writes to the agent's event descriptor. The agent sets BellAsleep, then
// looks at all Tails before it sleeps. All four accesses are sequentially consistent: both
// stores are locked instructions, of which the PE has one for many records. So the PE finds the
// bell set, or the agent finds the block in Ready. A PE may be stopped before it writes to the
// descriptor, so the agent's sleep has a limit.
//
// PE's Bell.Sleeping: the agent's stores of Slot.Seq and Done, and its loads of the bell behind
// them, are sequentially consistent, too. So a PE that waits for one of these words needs no
// membarrier after it has set its bell.
//
// If BellAsk is set in the agent's bell, a PE executes a locked instruction before its load of
// State. The agent sets it before the first PE attaches, a PE
// sets it before its first record: each does so if it cannot use membarrier. Without membarrier
// the agent's stores of BlockLeaving are locked instructions.
//
// Parts: written before the descriptor is handed out, and never again.
//
// Order of a stream: the agent sends the records of a stream in the order of their numbers. A
// PE opens a block for a stream after it has queued the last record of the previous one, or
// found that block queued. So the agent finds the records in their order if it goes through
// blocks in the order of Ready, and goes on with a block of its second look before it takes
// more from Ready.
//
// Done[class][node]: the number of records of the stream that the node has executed. Only the
// agent stores it (release), and it only grows; then the agent rings the PE's bell. The records
// below Done are executed, and the answers of those that have one are in their slots. The PE
// loads it (acquire).
//
// Reuse of a block: the PE stores Closed (release) after the last Fill. It uses a block again
// if the block is Closed, its State is BlockIdle (acquire) and Done covers all its records.
// From BlockIdle on, the agent does not read the block's body until it finds it in Ready, or claims it in a look back. What the
// agent may have to send again after a lost connection is not below Done. So nobody reads what
// the PE overwrites. The blocks of a lost node need BlockIdle only.
//
// Inbox: the agent writes cells and Head.Want, the PE writes Head.Cells, Head.Data and Open (sequentially consistent), each for the
// other one. The agent writes cells as any sender of a lane does, and tells the PE by its bell. It stores Queued when it has taken a
// message, before or after the cell is written. The step publishes a death only when the agent has answered that it takes nothing of
// the dead one any more. So a PE that finds the death, and then reads cells up to what Queued says, has read all that
// will ever come of the dead one. Want: the agent sets it when messages wait for room, then executes membarrier before it looks at
// the counts once more and sleeps. The PE rings the agent's bell after it has stored the counts, if Want is set.
//
// Slots, Rooms, Pieces: the PE stores 0 in Slot.Seq before the record of the request (its store
// to Fill orders both). For the answer, the agent writes the data, which go to a room, to a
// piece or into the heap, then Value and Status, then Seq (release); then it rings the PE's
// bell, and stores Done later. It writes an answer once. The PE loads Seq (acquire). From its
// request until Seq is that of the request, the slot with its room and piece belongs to the
// agent, even if the PE's wait has ended. A lost node gives no answers: the agent drops what
// comes from it before the failure page says so, and the PE takes the slot back after that.
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
	Version      = 23

	MaxRegions = 8
	MaxTeams   = 64
	MaxLocal   = 1024 // PEs on a node
	MaxBlocks  = 65536
	SlotSize   = 8192
	MaxEntries = MaxLocal / 8
	EntrySize  = 24         // bytes of a contribution that fits beside an arrival word
	AreaSize   = 1920 << 10 // bytes for large data of collectives, see coll
	StreamSize = 1 << 20    // bytes at the end of Area for broadcasts; more than most private caches

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
	Size        uint64 // bytes of the whole segment
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
	BellAsk                // a look is valid only after a locked instruction

	BellBits = iota // number of these bits; the bits above hold the number
)

// Progress tells the step that a PE makes progress. It is alone on its cache line. Plain
// stores suffice: the step only looks whether Count changes and whether Meets is 0.
type Progress struct {
	Count uint64 // moves at each call that may wait; 0 until Init has met the other PEs
	Meets uint64 // 1 while the PE waits for the PMIx server or the kernel, where its bell is not armed
	Calls uint64 // 1 after each call that does not wait; the step sets it to 0 when it has seen it
	_     [40]byte
}

// Process says which process the PE is. It is alone on its cache line.
type Process struct {
	PID uint64 // 0: unknown
	_   [56]byte
}

// Team is a PE's state of one of its teams.
type Team struct {
	Seq   uint64    // sequence number of the latest collective entered
	Part  uint64    // what is done of a part of a large reduction: board.Logged or board.Pushed of a piece; or whom it has found in a large exchange by turns, a bit each
	Used  uint64    // 0: the id is free here; otherwise the sequence number at which the group began that has it, and TeamReleased
	Offer uint64    // what survivors of the team tell each other about the one that they make
	Call  [2]uint64 // which large collective it has called last, and before, with what
	Home  uint64    // on which processors it entered its latest exchange by turns and the one before, 32 bits each
	Still uint64    // the step of such an exchange in which it still looks for members that enter
}

// Entry is a member's arrival word and its contributions to small steps, alone on a
// cache line.
type Entry struct {
	Seq  uint64 // the arrival word
	Data [2][EntrySize]byte
	_    uint64
}

// Vote is a PE's vote in an agreement, alone on its cache line.
type Vote struct {
	Seq   uint64 // number of the agreement
	Flags uint64
	Epoch uint64 // epoch of the failure page when the agreement was called
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
	Process   Process
	Voted     [MaxTeams]uint64      // of a team's first member: 1 if a member has voted in an agreement
	Asked     [MaxLocal / 64]uint64 // of the node's first PE: who asks for the check of collectives; all make it if any PE does
	Floors    [MaxTeams]uint64      // by team: what survivors of the team tell each other about what is numbered above all that they know
	_         [4096 - 256 - 2*8*MaxTeams - MaxLocal/8]byte
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

// ArriveWords returns the first arrival word of a team, in the segment of its first
// member, and the distance between two words in bytes. It is a cache line, with room for
// small contributions, if the team has at most MaxEntries members.
func (c *Control) ArriveWords(team, members int) (first unsafe.Pointer, stride uintptr) {
	if members <= MaxEntries {
		return unsafe.Pointer(&c.Entries[team]), unsafe.Sizeof(Entry{})
	}
	return unsafe.Pointer(&c.Arrive[team]), 8
}

// HeaderBytes is the size of Header.
const HeaderBytes = 8 + 4*4 + 8 + 16 + 8 + MaxRegions*24

// BellOffset is the offset of Bell in a segment. It lies at the end of a page, because
// objects tend to begin at the start of one. A processor that compares addresses by
// their last 12 bits would otherwise take the load of the bell for a load of data that
// was just stored.
const BellOffset = 8192 - 64

// HeapOffset is the offset of the symmetric heap in a segment.
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

// NewHeader returns the header of the segment of one PE, of size bytes without a Wire.
func NewHeader(job [16]byte, pe, npes, incarnation uint32, size uint64) Header {
	h := Header{
		Magic: Magic, Version: Version, PE: pe, NPEs: npes, Incarnation: incarnation,
		Size: size, Job: job, NRegions: 2,
	}
	h.Regions[0] = Region{Kind: RegionControl, Off: 0, Size: ControlSize}
	h.Regions[1] = Region{Kind: RegionHeap, Off: HeapOffset, Size: size - HeapOffset}
	return h
}

// AddWire adds a Wire behind the heap.
func (h *Header) AddWire() {
	h.Regions[h.NRegions] = Region{Kind: RegionWire, Off: h.Size, Size: WireSize}
	h.NRegions++
	h.Size += WireSize
}

// Region returns the region of a kind, and whether the segment has one inside its bounds.
func (h *Header) Region(kind uint32) (r Region, ok bool) {
	for i := range min(h.NRegions, MaxRegions) {
		if r = h.Regions[i]; r.Kind == kind {
			return r, r.Off <= h.Size && r.Size <= h.Size-r.Off
		}
	}
	return Region{}, false
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
		return fmt.Errorf("segment of PE %d has the header of PE %d", pe, h.PE)
	case h.Size != size:
		return fmt.Errorf("segment of PE %d has %d bytes, want %d", pe, h.Size, size)
	}
	return nil
}
