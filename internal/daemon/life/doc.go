// Package life is the life of one PE, as the step that runs it sees it: a pure state machine. Package daemon tells it what
// has happened and does what it answers; nothing here looks at a process, takes a lock or waits. The caller holds
// the lock of the step's table at every call.
//
// # States
//
// A PE has two processes at most that count. Its own process is the one that the step has started. The member is the
// process that has joined the job for the PE: the PE's own, or a child of it where a shell has started the program. Six
// parts of the state change nearly without regard to each other:
//
//	own         what has been told of the end of the PE's own process
//	number      whether the number of that process is still its own
//	watch       whether a watch looks after that process, and what of its memory
//	membership  whether the PE is in its job
//	member      which process has joined for the PE
//	verdict     whether a failure of the PE has been made known
//
// # Transitions
//
// A row is an input, a column is the state before it, and the entry is the state after it; a dash stands for no change.
// An input that a table does not name changes nothing of its part. The tests read these tables and hold the code to
// them, in all states.
//
//	own                | alive       well        badly
//	died well          | well        -           -
//	died badly         | badly       -           -
//
//	number             | held        ended       reaped
//	ended              | ended       -           -
//	reaped             | reaped      reaped      -
//
//	watch              | unwatched   watched     seen        blind
//	watched            | watched     -           -           -
//	memory freed       | -           seen        -           -
//	sight lost         | -           blind       -           -
//
//	membership         | outside     inside      left        lost
//	joined             | inside      -           inside      inside
//	left               | -           left        -           -
//	connection lost    | -           lost        lost        -
//
//	member             | unknown     own         other       watched
//	member is unknown  | -           unknown     unknown     unknown
//	member is own      | own         -           own         own
//	member is other    | other       other       -           other
//	member is watched  | watched     watched     watched     -
//	member died        | -           -           -           other
//	member sight lost  | -           -           -           other
//
// # Failures
//
// The verdict becomes "failed" once, and stays so. These inputs can make it so, if the end that counts is a failure: a
// signal, a status other than 0, or an end of a PE that is unfinished (inside or lost).
//
//	died               | the own process has died, and nothing of the PE may go on:
//	                   | outside, left or lost, or the member is its own: at once
//	                   | inside and badly: at once, or when a watched member is dead, too
//	                   | inside and well: at once if the member is gone, otherwise not yet
//	member died        | own badly: the end of the own process counts, which has waited for this
//	                   | unfinished, and own well or the member badly: the end of the member counts
//	member sight lost  | own badly: the end of the own process counts, which has waited for this
//	forsaken           | lost: the PE has ended without a farewell
//	concluded          | nothing is left of the PE: the end of the own process counts
//
// A program that a shell has started may go on without the shell. If the shell ended well, so may the program, and the
// program's end is the PE's. If the shell ended badly, the program is killed, and the PE is dead when both are: after the
// news of its death nothing of it touches memory of others. A shell that has waited for its program has said how the PE
// ends; the watch may tell of the program's end later, or may not know of it.
//
// After a member that exited with status 0, or nobody knows how, but without a farewell, the shell may start another.
// Whether it does is for the launcher to decide, which has the PE forsaken.
package life
