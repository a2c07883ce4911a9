package plan

import (
	"fmt"
	"strings"
)

// hostfileKeys are the words before = on a line of a hostfile, and what they say.
var hostfileKeys = map[string]string{
	"slots": "slots", "cpu": "slots", "cpus": "slots", "count": "slots",
	"max-slots": "max-slots", "max_slots": "max-slots", "slots-max": "max-slots", "slots_max": "max-slots",
	"user": "user", "username": "user", "user-name": "user", "user_name": "user",
	"port": "port",
}

// maxLine bounds the lines of a hostfile, without their comments.
const maxLine = 4096

// wantedKeys are the words of hostfileKeys for messages.
const wantedKeys = "slots=N, max-slots=N, user=NAME or port=N"

// ParseHostfile reads the text of a hostfile. Name is the file's name in errors. Each line is a
// host, a comment behind #, or empty:
//
//	node1 slots=4 max-slots=8
//	user@node2:4             # as MPICH writes it
//	[2001:db8::1] slots=2
//
// Lines with the same host add up, see Job.
func ParseHostfile(name, text string) (entries []Entry, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		at := fmt.Sprintf("%s: line %d", name, number)
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); len(line) > maxLine {
			return nil, fmt.Errorf("%s has %d bytes, want at most %d", at, len(line), maxLine)
		}
		words := joinEquals(strings.Fields(line))
		if len(words) == 0 {
			continue
		}
		some, err := parseHostLine(words)
		if err != nil {
			return nil, &lineError{at: at, err: err}
		}
		if len(entries)+len(some) > maxHosts {
			return nil, fmt.Errorf("%s: want at most %d hosts", at, maxHosts)
		}
		for i := range some {
			some[i].at = at
		}
		entries = append(entries, some...)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: no host in it, want one on each line, such as node1 slots=4", name)
	}
	return entries, nil
}

// lineError is an error of a line.
type lineError struct {
	at  string
	err error
}

// Error says where and what.
func (e *lineError) Error() string { return e.at + ": " + e.err.Error() }

// Unwrap returns what is wrong.
func (e *lineError) Unwrap() error { return e.err }

// joinEquals makes one word of slots = 4, which Open MPI takes.
func joinEquals(fields []string) (words []string) {
	for _, f := range fields {
		last := len(words) - 1
		if last >= 0 && (strings.HasPrefix(f, "=") || strings.HasSuffix(words[last], "=")) {
			words[last] += f
			continue
		}
		words = append(words, f)
	}
	return words
}

// parseHostLine reads the words of a line: a host, and what is said of it.
func parseHostLine(words []string) ([]Entry, error) {
	entries, err := parseHostWord(words[0])
	if err != nil {
		return nil, err
	}
	said := map[string]bool{"slots": entries[0].Slots != 0, "user": entries[0].User != ""}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		meaning := hostfileKeys[strings.ToLower(key)]
		if meaning == "" || !strings.Contains(word, "=") {
			return nil, &UnknownError{
				Text: fmt.Sprintf("%s, want %s", quote(word), wantedKeys),
				Word: key, Known: []string{"slots", "max-slots", "max_slots", "user", "port"},
			}
		}
		if said[meaning] {
			return nil, fmt.Errorf("%s: the line says it a second time, want it once", quote(word))
		}
		said[meaning] = true
		for i := range entries {
			if err := entries[i].set(meaning, value); err != nil {
				return nil, fmt.Errorf("%s: %w", quote(word), err)
			}
		}
	}
	h := &entries[0].Host
	if h.MaxSlots > 0 && h.Slots > h.MaxSlots {
		return nil, fmt.Errorf("slots=%d, want at most max-slots=%d", h.Slots, h.MaxSlots)
	}
	return entries, nil
}

// set notes what key=value says of a host.
func (h *Host) set(meaning, value string) (err error) {
	switch meaning {
	case "slots":
		h.Slots, err = parseSlots(value)
	case "max-slots":
		if h.MaxSlots, err = parseNumber(value, maxSlots); err == nil && h.MaxSlots == 0 {
			err = fmt.Errorf("0, want 1 or more; without the word there is no limit")
		}
	case "user":
		h.User, err = value, checkName("user", value)
	case "port":
		if h.Port, err = parseNumber(value, 1<<16-1); err == nil && h.Port == 0 {
			err = fmt.Errorf("0, want a port from 1 to %d", 1<<16-1)
		}
	}
	return err
}
