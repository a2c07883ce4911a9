package server

import (
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
)

// maxLogText bounds the text of one request.
const maxLogText = 1 << 20

// logText passes text on to the launcher's output. The server does not serve other channels, such as the system's log.
// It skips them, and refuses a request that names no served channel or marks one that is not served as required.
func logText(c *common, at caller, r *codec.LogRequest) {
	entries, skipped, err := logEntries(r.Data)
	if err != nil {
		c.refuse(at, codec.StatusErrBadParam, "log: "+err.Error())
		return
	}
	for _, info := range skipped {
		if len(entries) == 0 || info.Flags&codec.InfoRequired != 0 {
			c.refuse(at, codec.StatusErrNotSupported, fmt.Sprintf("log: channel %.64q, want %s or %s",
				info.Key, codec.KeyLogStdout, codec.KeyLogStderr))
			return
		}
	}
	if len(entries) == 0 {
		c.refuse(at, codec.StatusErrBadParam, "log: no text, want at least one key with text")
		return
	}
	if codec.Flag(r.Directives, codec.KeyLogOnce) {
		entries = entries[:1]
	}
	for _, entry := range entries {
		c.emit(action{kind: actLog, proc: at.name, flag: entry.toStderr, payload: entry.text})
	}
	c.reply(at, codec.StatusSuccess)
}

type logEntry struct {
	toStderr bool
	text     []byte // ends in a newline
}

// logEntries returns the texts for the launcher's output, and the infos of channels that are not served.
func logEntries(infos []codec.Info) (entries []logEntry, skipped []codec.Info, err error) {
	size := 0
	for _, info := range infos {
		if info.Key != codec.KeyLogStdout && info.Key != codec.KeyLogStderr {
			skipped = append(skipped, info)
			continue
		}
		s, ok := info.Value.Str()
		if !ok {
			return nil, nil, fmt.Errorf("%s is %v, want a string", info.Key, info.Value)
		}
		if size += len(s); size > maxLogText {
			return nil, nil, fmt.Errorf("%d bytes of text, want at most %d", size, maxLogText)
		}
		text := append(make([]byte, 0, len(s)+1), s...)
		if len(text) == 0 || text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		entries = append(entries, logEntry{info.Key == codec.KeyLogStderr, text})
	}
	return entries, skipped, nil
}
