package launch

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

const (
	// stacksAtMost is how long PEs may take to answer with their stacks, and quitAtMost
	// how long a PE may take that is ended so that its runtime prints them.
	stacksAtMost = 2 * time.Second
	quitAtMost   = 500 * time.Millisecond
	// callsAtMost is how long PEs may take to say in which calls they are.
	callsAtMost = 500 * time.Millisecond
	// profileAtMost is how long PEs may take to write their profiles.
	profileAtMost = 500 * time.Millisecond
)

// printLines prints whole lines that are too many for a message. The lines of one call
// stay together. It does not wait.
func (p *printer) printLines(text []byte) {
	p.sinks[daemon.Stderr].say(daemon.Stderr, text, math.MaxInt)
}

// prepare has the PEs do what is to be done before they are told to end.
func (r *run) prepare(sig syscall.Signal) {
	q := inquiry{r.cluster, r.out}
	if r.late {
		q.printCalls()
	}
	if r.dump {
		q.printStacks()
	}
	if r.profiles != nil {
		r.profiles.collect(r.cluster)
	}
	r.ready <- sig
}

// mostCalls bounds how many lines tell where PEs are.
const mostCalls = 32

// place is where PEs of a job are, in words for one PE and for several.
type place struct {
	job       int
	one, many string
}

// placeOf returns where a PE is, by its answer, or by what its node knows of it. isGo says whether it runs a Go program.
func placeOf(a *daemon.Answer, text string, isGo func() bool) place {
	switch {
	case a.Done:
		return place{a.Job, text, "are" + strings.TrimPrefix(text, "is")}
	case a.Ended:
		return place{a.Job, "has ended meanwhile", "have ended meanwhile"}
	case a.Left:
		return place{a.Job, "has left the job (Finalize) and still runs", "have left the job (Finalize) and still run"}
	case a.Asked && a.Late:
		text = fmt.Sprintf("did not say within %v where it is: it is stopped, or has no processor", callsAtMost)
		return place{a.Job, text, fmt.Sprintf("did not say within %v where they are: they are stopped, or have no processor", callsAtMost)}
	case a.Asked:
		return place{a.Job, "has closed its connection without Finalize and still runs", "have closed their connections without Finalize and still run"}
	case isGo():
		return place{a.Job, "has not joined the job", "have not joined the job"}
	}
	return place{
		a.Job, "is not a Go program that has joined the job: where it is cannot be told",
		"are not Go programs that have joined the job: where they are cannot be told",
	}
}

// awaiting are the PEs at one place.
type awaiting struct {
	pes []int
	of  map[int][]int // by a PE that is waited for: which of pes wait for it, as far as that is known
}

// inquiry asks all PEs where they are, and prints what they answer.
type inquiry struct {
	cluster *Cluster
	out     *printer
}

// printCalls says in which call of the library each PE is. PEs of a job that are in the same call share a line.
func (q inquiry) printCalls() {
	var order []place
	at := map[place]*awaiting{}
	for _, a := range q.cluster.Ask(wire.OrderCalls, callsAtMost) {
		text, awaited, waits := strings.Cut(string(a.Text), "\n")
		w := placeOf(&a, text, func() bool { return q.cluster.HasGo(a.ID) })
		if at[w] == nil {
			order = append(order, w)
			at[w] = &awaiting{of: map[int][]int{}}
		}
		at[w].pes = append(at[w].pes, a.PE)
		if pe, err := strconv.Atoi(awaited); waits && a.Done && err == nil {
			at[w].of[pe] = append(at[w].of[pe], a.PE)
		}
	}
	for i, w := range order {
		if i == mostCalls {
			q.out.message("and PEs at %d more places; --stacks shows all", len(order)-i)
			return
		}
		q.out.message("%s", w.sentence(at[w]))
	}
}

// mostAwaited bounds how many PEs a line says are waited for.
const mostAwaited = 8

// sentence says where PEs are and for which they wait. It lists who waits for whom only where that differs.
func (w place) sentence(a *awaiting) string {
	slices.Sort(a.pes)
	text, wait := w.many, "wait"
	if len(a.pes) == 1 {
		text, wait = w.one, "waits"
	}
	text = listPEsOf(w.job, a.pes) + " " + text
	awaited := sortedKeys(a.of)
	if len(awaited) == 1 && len(a.of[awaited[0]]) == len(a.pes) {
		return fmt.Sprintf("%s, and %s for PE %d", text, wait, awaited[0])
	}
	for i, pe := range awaited {
		switch i {
		case mostAwaited:
			return text + ", ..."
		case 0:
			text += ": "
		default:
			text += ", "
		}
		wait = "wait"
		if len(a.of[pe]) == 1 {
			wait = "waits"
		}
		slices.Sort(a.of[pe])
		text += fmt.Sprintf("%s %s for PE %d", listPEs(a.of[pe]), wait, pe)
	}
	return text
}

// printStacks prints where the goroutines of all PEs are. A Go program that does not answer, because it
// is not in the job yet or any more, is ended so that its runtime prints them.
func (q inquiry) printStacks() {
	deadline := time.Now().Add(stacksAtMost)
	for _, a := range q.cluster.Ask(wire.OrderStacks, stacksAtMost) {
		if len(a.Text) > 0 {
			text := fmt.Appendf(nil, "oshrun: stacks of PE %v (pid %d):\n%s\n", a.ID, a.PID, a.Text)
			if !a.Done {
				text = fmt.Appendf(text, "oshrun: the stacks of PE %v are not complete\n", a.ID)
			}
			q.out.printLines(text)
			continue
		}
		left := min(quitAtMost, time.Until(deadline))
		switch {
		case left <= 0:
			q.out.message("stacks of PE %v (pid %d): it did not answer within %v", a.ID, a.PID, stacksAtMost)
		case !q.cluster.HasGo(a.ID):
			q.out.message("stacks of PE %v (pid %d): none, it is not a Go program", a.ID, a.PID)
		default:
			q.out.message("stacks of PE %v (pid %d), from its runtime:", a.ID, a.PID)
			q.cluster.QuitGo(a.ID, left)
		}
	}
}
