// Package wait is the only package in which a process waits for another one. A wait is for one word (Wait),
// for any of several words (WaitAny), for what a Poller polls (WaitPoll), or for bytes of a socket (Receive).
// No other package polls, yields or sleeps; internal/house/archtest enforces it.
//
// A wait has three phases. Each one checks the condition in a loop. Policy sets how long each one is.
//
//	phase   costs                     ends a wait for   left when
//	poll    2 ns a look               the condition     Policy.Polls looks found nothing
//	yield   0.3 us, or a time slice   deaths, too       Policy.Yields yields, or yields pause (yield.go)
//	sleep   a system call each way    ctx, Close, too   woken: back to the polls
//
// The bell wakes a sleeper. It is one word in the sleeper's segment.
//
//   - The sleeper (this package) sets the bell, checks its condition a last time, then sleeps on the bell's
//     futex.
//   - A writer (package rma, bell.go) stores its data, then reads the bell, and wakes the sleeper if the
//     bell is set.
//
// Package symheap/layout argues why no wake-up is lost; Wait argues it for deaths.
//
//	cond.go       conditions on one word
//	policy.go     how long each phase is
//	wait.go       the Waiter of a process; Wait, sleep and wake-up
//	poll.go       WaitPoll; work for peers while this process waits (Serve) or polls (ServePeers)
//	set.go        WaitAny
//	yield.go      when yields pause, because strangers get the processor
//	park.go       the goroutine that sleeps for others, which are parked meanwhile
//	socket.go     Receive: bytes of a socket
//	lock.go       a lock between goroutines of one process, whose waiters yield as waits do
//	awaited.go    what this process waits for, for the watch for hangs
package wait
