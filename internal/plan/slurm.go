package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// SlurmName is what messages call the hosts that Slurm has allocated.
const SlurmName = "Slurm's allocation"

// slurmJob reads what the environment says about a job of Slurm.
//
// In a step of a larger allocation (salloc -N4, then srun -n1 --pty bash), SLURM_NNODES and
// SLURM_TASKS_PER_NODE are about the step, while the list of nodes is the job's.
type slurmJob struct {
	lookup   func(name string) (string, bool)
	listName string   // the variable that lists the nodes
	list     string   // its value
	names    []string // the nodes
	isStep   bool     // this process runs in a step
}

// first returns the first of some variables that is set and not empty.
func (s *slurmJob) first(names ...string) (name, value string) {
	for _, name := range names {
		if value, isSet := s.lookup(name); isSet && value != "" {
			return name, value
		}
	}
	return "", ""
}

// nodelist returns the variable that lists the nodes of the job, and its value. Both are empty if this
// process does not run in a job of Slurm.
func (s *slurmJob) nodelist() (name, list string) {
	if _, job := s.first("SLURM_JOB_ID", "SLURM_JOBID"); job == "" {
		return "", ""
	}
	return s.first("SLURM_JOB_NODELIST", "SLURM_NODELIST")
}

// InSlurm says whether this process runs in a job of Slurm, by its environment: whether Slurm returns
// hosts or an error.
func InSlurm(lookup func(name string) (string, bool)) bool {
	_, list := (&slurmJob{lookup: lookup}).nodelist()
	return list != ""
}

// Slurm returns the hosts that Slurm has allocated to the job in whose environment this process
// runs, or nil if there is none. A host has a slot for each task that Slurm would start there; if
// that is not said for these nodes, for each processor that the job has there.
func Slurm(lookup func(name string) (string, bool)) (*Allocation, error) {
	s := &slurmJob{lookup: lookup}
	if s.listName, s.list = s.nodelist(); s.list == "" {
		return nil, nil
	}
	step, _ := s.first("SLURM_STEP_ID", "SLURM_STEPID")
	s.isStep = step != ""
	var err error
	if s.names, err = ParseNodelist(s.list); err != nil {
		return nil, fmt.Errorf("%s: %w", s.listName, err)
	}
	if err := s.checkNumber(); err != nil {
		return nil, err
	}
	a := &Allocation{From: SlurmName, Hosts: make([]Host, len(s.names))}
	seen := map[string]bool{}
	for i, name := range s.names {
		if err := checkName("host", name); err != nil {
			return nil, fmt.Errorf("%s: %w", s.listName, err)
		}
		if seen[strings.ToLower(name)] {
			return nil, fmt.Errorf("%s: host %s is there twice, want it once", s.listName, name)
		}
		seen[strings.ToLower(name)] = true
		a.Hosts[i].Name = name
	}
	counts, err := s.counts()
	for i, n := range counts {
		a.Hosts[i].Slots = n
	}
	return a, err
}

// checkNumber compares the number of nodes with the list. Another number is that of a step, or an error.
func (s *slurmJob) checkNumber() error {
	name, text := s.first("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
	if text == "" {
		return nil
	}
	n, err := parseNumber(text, maxHosts)
	if err != nil || n != len(s.names) && !s.isStep {
		return fmt.Errorf("%s: %s, want %d, as many as %s names: %s", name, quote(text), len(s.names), s.listName, quote(s.list))
	}
	return nil
}

// counts returns the slots of each node; nil if no variable has them for all nodes. In a step,
// numbers for fewer nodes are those of the step, and the next variable is read.
func (s *slurmJob) counts() ([]int, error) {
	for _, name := range []string{"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"} {
		_, text := s.first(name)
		if text == "" {
			continue
		}
		counts, err := ParseCounts(text)
		switch {
		case err == nil && len(counts) == len(s.names):
			return counts, nil
		case err == nil && s.isStep:
			continue
		case err == nil:
			err = fmt.Errorf("%s has numbers for %d nodes, want %d, as many as %s names", quote(text), len(counts), len(s.names), s.listName)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return nil, nil
}

// ParseNodelist reads a list of nodes as Slurm writes it: n[001-003,7],m5. A name may have several
// brackets. Numbers keep the zeros of the lower end of their range.
func ParseNodelist(list string) (names []string, err error) {
	for _, word := range splitOutside(list) {
		if word == "" {
			return nil, fmt.Errorf("%s has an empty name, want names such as n[01-16],m5", quote(list))
		}
		some, err := expandNodes(word, maxHosts-len(names))
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
	}
	return names, nil
}

// expandNodes returns the names that a word with brackets stands for, at most most.
func expandNodes(word string, most int) (names []string, err error) {
	names = []string{""}
	for rest := word; rest != ""; {
		plain, inside, opened := strings.Cut(rest, "[")
		if strings.Contains(plain, "]") {
			return nil, fmt.Errorf("%s: ] without [, want names such as n[01-16]", quote(word))
		}
		parts := []string{""}
		rest = ""
		if opened {
			ranges, after, closed := strings.Cut(inside, "]")
			if !closed {
				return nil, fmt.Errorf("%s: [ without ], want names such as n[01-16]", quote(word))
			}
			if parts, err = expandRanges(ranges, most); err != nil {
				return nil, fmt.Errorf("%s: %w", quote(word), err)
			}
			rest = after
		}
		if len(names[0])+len(plain)+len(parts[0]) > maxName {
			return nil, fmt.Errorf("%s: want names of at most %d bytes", quote(word), maxName)
		}
		if len(names)*len(parts) > most {
			return nil, tooManyHosts(word)
		}
		names = combine(names, plain, parts)
	}
	return names, nil
}

// tooManyHosts reports a word that stands for too many hosts.
func tooManyHosts(word string) error {
	return fmt.Errorf("%s: want at most %d hosts", quote(word), maxHosts)
}

// combine returns each of names with plain and each of parts behind it.
func combine(names []string, plain string, parts []string) []string {
	all := make([]string, 0, len(names)*len(parts))
	for _, name := range names {
		for _, part := range parts {
			all = append(all, name+plain+part)
		}
	}
	return all
}

// expandRanges returns the numbers of 001-003,7 as they are written in names, at most most.
func expandRanges(ranges string, most int) (parts []string, err error) {
	for part := range strings.SplitSeq(ranges, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		const mostDigits = 9
		lo, err := parseNumber(from, 1e9)
		hi, err2 := parseNumber(to, 1e9)
		if err != nil || err2 != nil || len(from) > mostDigits || len(to) > mostDigits || hi < lo {
			return nil, fmt.Errorf("[%s], want numbers of at most %d digits or ranges of them, such as 01-16,20", quote(part), mostDigits)
		}
		if hi-lo >= most-len(parts) {
			return nil, fmt.Errorf("[%s], want at most %d hosts", quote(part), maxHosts)
		}
		for n := lo; n <= hi; n++ {
			digits := strconv.Itoa(n)
			parts = append(parts, strings.Repeat("0", max(0, len(from)-len(digits)))+digits)
		}
	}
	return parts, nil
}

// ParseCounts reads a number for each node as Slurm writes them: 4(x2),3 is 4, 4, 3.
func ParseCounts(text string) (counts []int, err error) {
	for word := range strings.SplitSeq(text, ",") {
		number, repeat, repeated := strings.Cut(word, "(x")
		times := 1
		if repeated {
			inside, closed := strings.CutSuffix(repeat, ")")
			if times, err = parseNumber(inside, maxHosts); err != nil || !closed {
				times = 0
			}
		}
		n, err := parseNumber(number, maxSlots)
		if err != nil || n < 1 || times < 1 {
			return nil, fmt.Errorf("%s of %s, want numbers such as 4(x2),3", quote(word), quote(text))
		}
		if len(counts)+times > maxHosts {
			return nil, fmt.Errorf("%s, want numbers for at most %d nodes", quote(text), maxHosts)
		}
		for range times {
			counts = append(counts, n)
		}
	}
	return counts, nil
}
