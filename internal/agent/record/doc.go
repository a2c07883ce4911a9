// Package record has the records that PEs and agents exchange: one record is one one-sided operation on a
// PE of another node.
//
// # Form
//
// All numbers are little endian. A record begins at a multiple of 8 bytes:
//
//	u8 op | u8 code | u16 local PE at the target | u32 length | u64 offset in the target's segment | payload
//
// The payload is padded with zeros to a multiple of 8 bytes:
//
//	op           code                     length         payload
//	put          0                        bytes of data  data
//	put strided  0                        bytes of data  u64 step, u64 block, u64 n, data
//	get          0                        bytes of data  u64 to, u64 slot
//	get strided  0                        bytes of data  u64 step, u64 block, u64 n, u64 to, u64 slot
//	atomic       AtomicCode, width        0              u64 operand, u64 cond
//	fetch        AtomicCode, width        0              u64 operand, u64 cond, u64 slot
//	signal       SignalSet or SignalAdd   0              u64 value
//	fetch once   AtomicCode, width        0              u64 operand, u64 cond, u64 number, u64 slot
//	put from     0                        bytes of data  u64 from
//	message      kind, MessageBody, Cut   bytes of data  u64 size, the body of a cell, data
//	part         MessageCut or 0          bytes of data  data
//
// Of strided records, n blocks of block bytes begin step bytes apart at the target, and the data is the
// blocks one after the other. "to" is where the answer's data goes: an offset in the segment of the PE that
// asks. A record fits the body of a block (MaxRecord), so a longer put is several records.
//
// A put from the heap goes from a PE to the agent of its node only: "from" is where the data lies in the PE's segment.
// The agent sends a put with the data in its place, so its length is that of a put at most.
//
// A message is for the inbox of a PE (layout.Inbox). In place of an offset it has the word Match of a cell, and size is the word Size.
// The body is there with MessageBody only. A message of more data than a record can have is cut: parts follow, one
// directly behind the other in the stream, the last one without MessageCut. All have MaxMessage bytes of data together at most.
//
// # Checks
//
// Parse needs no trust in the bytes: it returns a record within them or an error. The agent of the source sends
// nothing that Parse refuses. [Limits.Check] says whether the operation may be executed. The agent of the target
// calls it for each record, and answers StatusBad. [Limits.CheckSource] is for the source's agent.
package record
