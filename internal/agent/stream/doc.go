// Package stream has the protocol between the agents of two nodes, as pure cores: a [Sender] for the
// requests of the node's PEs, and a [Receiver] for the requests of other nodes. They know no sockets and no
// time. The driver, package agent, gives them what has happened and posts the frames that they want to send.
//
// # Streams
//
// A stream is the records of one PE to one node in one class, numbered 0, 1, 2, ... The receiver executes
// each record once, in the order of the numbers, whatever happens to the connections.
//
//   - The sender sends records in order and keeps them, in the blocks of the PE, until they are done. A put from the heap
//     is sent, and sent again, as a put of what lies there then: the PE leaves that unchanged until the record is done.
//   - The receiver counts what it has executed. It drops records below that count, and takes a record above
//     it for an error of the sender. So a record is executed once.
//   - A new connection begins with a greeting. It tells the receiver which answers the sender has, and the
//     sender which records are executed. Both go on from there. So nothing is lost.
//
// # Frames
//
// A frame is a header of 32 bytes, little endian, and a body:
//
//	u8 kind | u8 class | u16 local PE of the source | u32 incarnation | u64 number | u64 word | u32 n | u32 bytes of the body
//
//	kind      from       number       word          n                    body
//	answered  sender     answered                                                      greeting
//	hello     sender                                                                   ends the greeting
//	records   sender     first        answered      records              records
//	executed  receiver   executed     done                                             reply to a greeting
//	welcome   receiver                                                                 ends the reply
//	done      receiver   done
//	value     receiver   the request  value         slot, status << 16
//	data      receiver   the request  to            slot, status << 16   data
//
// answered: the sender has all answers to requests below. executed: records below are executed. done: records
// below are executed, and the receiver has sent the answers to all of them before this frame.
//
// The receiver sends done as soon as records are executed. For records whose sender says that this may wait (record.MayWait), it
// sends done together with the next done or answer to that node that does not wait, or when the driver
// calls TellAll. A welcome tells it, too.
//
// # Records that wait for a PE
//
// The records of messages go to PEs that may not take them. The driver keeps them, within bounds, and then holds the stream (Receiver.Hold):
// what has come is executed, but not done. So it is never sent again, and the source stops when it has filled
// its quota of blocks. The driver has the receiver say from time to time that it lives (Remind), by a done with
// the same number: otherwise the sender would take the node for one that does not answer.
//
// # Connections
//
// The sender's frames and the receiver's replies share one connection, which the sender's node opens:
//
//	sender    answered for each stream with answers, hello
//	receiver  executed for each stream that it knows, welcome
//	sender    records
//	receiver  value, data, done
//
// The sender sends no records before the welcome. A connection has a generation. What comes late of an older
// generation, unread bytes included, is dropped, so what the welcome says stays true: no older frame can raise
// the counts any more.
//
// # Answers
//
// The receiver executes a fetch once and keeps its value until the sender has it. A get is not executed but
// read when its answer goes out, and read again if that answer is lost. This is correct because a get that has
// not returned may see any value of the memory since it began. The receiver sends the answers of a stream in
// order, so a single number acknowledges them.
//
// # Deaths and incarnations
//
// Frames carry the incarnation of the source PE. A greater one begins a fresh stream at number 0; frames of
// earlier ones are dropped. Receiver.DropPE drops an incarnation whose death is known: no frame of it is
// executed afterwards.
//
// # Bounds
//
//	sender    node: WireClasses streams for each local PE, from the first record on; the header of a frame under assembly
//	          PE: WireBlocks references to blocks
//	receiver  node: WireClasses streams for each source PE up to the last one that has sent; WireBody bytes of a frame
//	          stream: WireSlots answers, which is how many a PE can wait for
//	both      connection: Window, which limits what is posted and not yet sent
//
// # Rules for the driver
//
//   - It handles all events of a Poll before it calls Next. So it posts nothing for a connection that has
//     broken meanwhile.
//   - It calls Turn until there is none, and Next for each such node until it returns false.
//   - It calls Receiver.TellAll some time after Owes has become true, much earlier than a sender is impatient.
//   - It posts the frames of Next in order: header, then body or data.
//   - After Broken it calls Sender.Retry when it is time to open a new connection.
//   - It takes the blocks of a PE in the order of the ready ring. So a PE uses a block again only when its State
//     is idle, also if the block's node is dead: otherwise the old place in the ring would make the agent take the
//     new use before earlier blocks of the same stream.
//   - A PE's segment goes to a successor only when all that was posted before DropPE is Sent or Broken.
package stream
