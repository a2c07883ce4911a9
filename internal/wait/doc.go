// Package wait holds the one function of the project by which a process waits for another one, in
// its forms for one word (Wait), for any of several words (WaitAny) and for whatever a Poller looks
// at (WaitPoll). No other package polls, yields or sleeps; internal/house/archtest looks for it.
//
// A wait goes through three phases, each of which looks at the condition again and again. Policy
// says how long each one is.
//
//	phase   costs                     ends a wait for   left when
//	poll    2 ns a look               the condition     Policy.Polls looks found nothing
//	yield   0.3 us, or a time slice   deaths, too       Policy.Yields yields, or yields pause (yield.go)
//	sleep   a system call each way    ctx, Close, too   woken: back to the polls
//
// The bell is how a sleeper is woken: one word in the segment of the sleeper. Its writers are in
// package rma (bell.go), its sleepers here. The sleeper sets the bell, then looks at its condition
// a last time, then sleeps in the futex of the bell. A writer stores its data, then looks at the
// bell, and wakes the sleeper if it is set. Package symheap/layout argues why no wake-up is lost;
// Wait argues it for deaths.
//
//	cond.go       conditions on one word
//	policy.go     how long each phase is
//	wait.go       the Waiter of a process; Wait, sleep and wake-up
//	poll.go       WaitPoll; what a process does for others while it waits (Serve) or polls (ServePeers)
//	set.go        WaitAny
//	yield.go      when yields pause, because strangers get the processor
//	lock.go       a lock between goroutines of one process, whose waiters yield as waits do
//	awaited.go    whom this process waits for, as others may ask
package wait
