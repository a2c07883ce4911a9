package plan

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Bounds on what is read of hosts: a mistake should not take memory without bound.
const (
	maxHosts = 1 << 16 // hosts of a list, a file or an allocation
	maxSlots = 1 << 20 // slots of a host
	maxPEs   = 1 << 20 // PEs of a job
	maxName  = 253     // bytes of a host's name, as DNS has it
)

// AllSlots are the slots of an entry that asks for all slots of a host.
const AllSlots = -1

// Host is a machine that PEs may run on.
type Host struct {
	Name     string // without user and port; an IPv6 address is without brackets
	User     string // who logs in there; empty: the user of this process
	Port     int    // of ssh; 0: the default of ssh
	Slots    int    // PEs that it has room for
	MaxSlots int    // PEs that it takes even if it is oversubscribed; 0: any number
	Assumed  bool   // Slots are the processors of this machine, because nothing says how many there are
	Guess    int    // how many processors the host is taken to have, which decides how many PEs it has; 0: nothing was guessed
}

// entryKind says how an entry names hosts.
type entryKind uint8

const (
	byName  entryKind = iota
	byIndex           // +n1: the host with that index in the allocation
	byEmpty           // +e: hosts without PEs
)

// Entry is what a word of --host or a line of a hostfile says. Its Slots are 0 if no number is
// written, and AllSlots for name:* and name:auto.
type Entry struct {
	Host
	kind   entryKind
	number int    // byIndex: the index; byEmpty: how many hosts, 0: all
	at     string // where it is written, for errors
}

// UnknownError reports a word that is none of those that are known.
type UnknownError struct {
	Text  string   // the message
	Word  string   // the word
	Known []string // the words that are known
}

// Error returns the message.
func (e *UnknownError) Error() string { return e.Text }

// ParseHostList reads the hosts of --host: a:4,b,c:*.
//
//   - name:N has N slots, a name alone one, and a name that is repeated the sum.
//   - name:* and name:auto have all slots that the allocation gives, or one for each processor.
//   - +n1 is the second host of the allocation, +e all hosts without PEs, and +e:2 two of these.
//   - n[01-16] stands for several hosts, as Slurm writes them.
//   - A user may stand before the name, as in user@name. An IPv6 address with slots has brackets.
//
// The option's name is part of errors.
func ParseHostList(option, list string) (entries []Entry, err error) {
	at := fmt.Sprintf("%s %s", option, quote(list))
	for _, word := range splitOutside(list) {
		if word == "" {
			return nil, fmt.Errorf("%s: %q, want hosts such as a:4,b", at, word)
		}
		some, err := parseHostWord(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if len(entries)+len(some) > maxHosts {
			return nil, fmt.Errorf("%s: want at most %d hosts", at, maxHosts)
		}
		for i := range some {
			some[i].at = at
		}
		entries = append(entries, some...)
	}
	return entries, nil
}

// WithAllSlots adds to each host of a list, as ParseHostList reads it, that all its slots are meant.
func WithAllSlots(list string) string {
	words := splitOutside(list)
	for i, word := range words {
		if word != "" {
			words[i] = word + ":*"
		}
	}
	return strings.Join(words, ",")
}

// quote returns a text for a message: as it is if it is short and plain.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		text = text[:most] + "..."
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return strconv.Quote(text)
	}
	return text
}

// splitOutside cuts a list at the commas that are not in brackets.
func splitOutside(list string) (words []string) {
	depth, from := 0, 0
	for i := range len(list) {
		switch list[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				words, from, depth = append(words, list[from:i]), i+1, 0
			}
		}
	}
	return append(words, list[from:])
}

// parseHostWord reads a host as it is written in a list or at the beginning of a line: perhaps
// with a user and slots. It may stand for several hosts.
func parseHostWord(word string) ([]Entry, error) {
	if strings.HasPrefix(word, "+") {
		e, err := parseRelative(word)
		return []Entry{e}, err
	}
	user, rest, hasUser := strings.Cut(word, "@")
	if !hasUser {
		user, rest = "", word
	} else if err := checkName("user", user); err != nil {
		return nil, fmt.Errorf("host %s: %w", quote(word), err)
	}
	name, slots, err := cutSlots(rest)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", quote(word), err)
	}
	names := []string{name}
	if strings.ContainsAny(name, "[]") {
		if names, err = ParseNodelist(name); err != nil {
			return nil, fmt.Errorf("host %s: %w", quote(word), err)
		}
	}
	entries := make([]Entry, len(names))
	for i, name := range names {
		if err := checkName("host", name); err != nil {
			return nil, err
		}
		entries[i].Host = Host{Name: name, User: user, Slots: slots}
	}
	return entries, nil
}

// cutSlots splits name:slots. The name may be an IPv6 address: in brackets, or without slots.
func cutSlots(word string) (name string, slots int, err error) {
	if address, after, closed := strings.Cut(word, "]"); closed && strings.HasPrefix(word, "[") && strings.Contains(address, ":") {
		if after == "" {
			return address[1:], 0, nil
		}
		text, hasSlots := strings.CutPrefix(after, ":")
		if !hasSlots {
			return "", 0, fmt.Errorf("%s after the address, want :SLOTS or nothing", quote(after))
		}
		slots, err = parseSlots(text)
		return address[1:], slots, err
	}
	if strings.Count(word, ":") > 1 {
		return word, 0, nil // an IPv6 address
	}
	name, text, hasSlots := strings.Cut(word, ":")
	if !hasSlots {
		return name, 0, nil
	}
	slots, err = parseSlots(text)
	return name, slots, err
}

// parseSlots reads the slots of a host.
func parseSlots(text string) (int, error) {
	if text == "*" || strings.EqualFold(text, "auto") {
		return AllSlots, nil
	}
	n, err := parseNumber(text, maxSlots)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("slots %s, want a number from 1 to %d, * or auto", quote(text), maxSlots)
	}
	return n, nil
}

// parseNumber reads digits only: no sign, no space.
func parseNumber(text string, most int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n > uint64(most) {
		return 0, fmt.Errorf("%s, want a number of at most %d", quote(text), most)
	}
	return int(n), nil
}

// checkName refuses what is no name of a host or user. One that begins with a dash would be an
// option to ssh.
func checkName(what, name string) error {
	isBad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	text := name
	if strings.Contains(name, ":") {
		address, err := netip.ParseAddr(name)
		if err != nil {
			return fmt.Errorf("%s %s, want a name, or an IPv6 address such as [fe80::1]", what, quote(name))
		}
		if text = address.Zone(); text == "" {
			return nil
		}
	}
	if text == "" || len(name) > maxName || name[0] == '-' || strings.ContainsFunc(text, isBad) {
		return fmt.Errorf("%s %s, want letters, digits, dots and dashes that do not begin with a dash", what, quote(name))
	}
	return nil
}

// parseRelative reads +n1, +n1:4, +e or +e:2.
func parseRelative(word string) (e Entry, err error) {
	text, number, isNumbered := strings.Cut(strings.ToLower(word), ":")
	switch {
	case text == "+e":
		e.kind = byEmpty
		if isNumbered {
			if e.number, err = parseNumber(number, maxHosts); err == nil && e.number > 0 {
				return e, nil
			}
			return e, fmt.Errorf("host %s, want +e for all hosts without PEs, or +e:N for N of them", quote(word))
		}
		return e, nil
	case strings.HasPrefix(text, "+n"):
		e.kind = byIndex
		if e.number, err = parseNumber(text[2:], maxHosts); err != nil {
			break
		}
		if isNumbered {
			e.Slots, err = parseSlots(number)
		}
		if err == nil {
			return e, nil
		}
	}
	return e, fmt.Errorf("host %s, want +n0 for the first host of the allocation, +n1 for the next, or +e for those without PEs", quote(word))
}
