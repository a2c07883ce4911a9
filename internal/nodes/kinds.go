package nodes

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/goshmem/goshmem/internal/plan"
)

// errorsWithin is how long other daemons may take to fail after the first one has: a mistake is often on all hosts.
const errorsWithin = 200 * time.Millisecond

var (
	// errOneFailed ends the wait for daemons when another one has failed, errorsWithin ago.
	errOneFailed = errors.New("another daemon has failed")
	// errNotStarted is the error of a daemon that was not started because another one had failed.
	errNotStarted = errors.New("not started, as another daemon has failed")
)

// hostError is the error of a host.
type hostError struct {
	host string
	err  error
}

// mostKinds is how many of many errors are told in full.
const mostKinds = 4

// joinByKind makes one error of those of hosts. Of errors that differ by their hosts only, the first is told, and on which
// hosts the others are.
func joinByKind(errs []hostError) error {
	var kinds []string
	hosts := map[string][]string{}
	first := map[string]*hostError{}
	same := map[string]string{} // kinds of texts: one agent for all hosts gives all one text, with the name of one
	for i := range errs {
		e := &errs[i]
		kind, known := same[e.err.Error()]
		if !known {
			kind = kindOf(*e)
			same[e.err.Error()] = kind
		}
		if first[kind] == nil {
			kinds, first[kind] = append(kinds, kind), e
			continue
		}
		hosts[kind] = append(hosts[kind], e.host)
	}
	var told []error
	for _, kind := range kinds[:min(len(kinds), mostKinds)] {
		err := first[kind].err
		if others := hosts[kind]; len(others) > 0 {
			err = fmt.Errorf("%w; and %d more of the same kind: %s", err, len(others), plan.Few(others, ", "))
		}
		told = append(told, err)
	}
	var rest []string
	for _, kind := range kinds[min(len(kinds), mostKinds):] {
		rest = append(append(rest, first[kind].host), hosts[kind]...)
	}
	if len(rest) > 0 {
		told = append(told, fmt.Errorf("and other errors on %s", plan.Few(rest, ", ")))
	}
	if len(told) == 1 {
		return told[0]
	}
	return errors.Join(told...)
}

// kindOf returns what errors have in common that differ by their hosts only.
func kindOf(e hostError) string {
	text := e.err.Error()
	if agent, ok := errors.AsType[*AgentError](e.err); ok {
		text = fmt.Sprintf("%v: %s", agent.Err, agent.Said)
	}
	name := regexp.MustCompile("(^|[^0-9A-Za-z])" + regexp.QuoteMeta(e.host) + "($|[^0-9A-Za-z])")
	return name.ReplaceAllString(name.ReplaceAllString(text, "${1}{host}${2}"), "${1}{host}${2}") // one may begin where another ends
}
