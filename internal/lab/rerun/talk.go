package rerun

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// ErrEarlyEnd reports that a job ended before its measurement began.
var ErrEarlyEnd = errors.New("the job ended before all PEs were ready")

// StartTalk starts a run with pipes for its standard input and output. lines delivers the JSON objects that the run
// prints, one a line, if isWanted accepts them; it drops all other lines.
//
//   - End: lines is closed at the end of the output. The caller must read lines up to its end, and only then call Wait:
//     otherwise a PE may block on a full pipe.
func StartTalk[L any](r *Run, isWanted func(*L) bool) (stdin io.WriteCloser, lines <-chan L, err error) {
	if stdin, err = r.StdinPipe(); err != nil {
		return nil, nil, err
	}
	out, err := r.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := r.Start(); err != nil {
		return nil, nil, err
	}
	found := make(chan L)
	go func() {
		defer close(found)
		for in := bufio.NewReader(out); ; {
			text, err := in.ReadBytes('\n')
			var l L
			if json.Unmarshal(text, &l) == nil && isWanted(&l) {
				found <- l
			}
			if err != nil {
				return
			}
		}
	}()
	return stdin, found, nil
}
