package remote

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// Take takes a frame of the node. A frame that no server sends ends the client as Lost does.
func (c *Client) Take(f wire.Frame) {
	if c.life.Err() != nil {
		return
	}
	if err := c.take(f); err != nil {
		c.Lost(fmt.Errorf("the node has sent what is not understood: %w", err))
	}
}

func (c *Client) take(f wire.Frame) error {
	if f.Kind == wire.KindPieceTaken {
		c.sender.pieceTaken(f.Stream)
		return nil
	}
	f, whole, err := c.messages.take(f)
	if err != nil {
		return err
	}
	if !whole {
		c.sender.send(wire.KindPieceTaken, f.Stream, nil)
		return nil
	}
	return c.hear(&f)
}

// hear takes a message of the node.
func (c *Client) hear(f *wire.Frame) error {
	c.mu.Lock()
	hooks := c.hooks
	c.mu.Unlock()
	switch f.Kind {
	case wire.KindAnswer:
		return with(f, codeAnswer, func(a answer) { c.requests.finish(f.Stream, a) })
	case wire.KindAsked:
		return with(f, codePEAnswer, func(a daemon.Answer) { c.requests.addAnswer(f.Stream, a) })
	case wire.KindEvent:
		return with(f, codeEvent, c.hearEvent)
	case wire.KindOutputBegin:
		from, err := decode(f, codeSource)
		if err != nil {
			return err
		}
		return c.output.begin(f.Stream, from)
	case wire.KindOutput:
		t, err := decode(f, codeText)
		if err != nil {
			return err
		}
		return c.output.take(f.Stream, t)
	case wire.KindOutputEnd:
		return c.output.end(f.Stream)
	case wire.KindLog:
		return with(f, codeText, func(t text) {
			if hooks.Log != nil {
				hooks.Log(t.Stream, t.Text)
			}
			c.sender.send(wire.KindLogTaken, 0, encode(wire.Integer, len(t.Text)))
		})
	case wire.KindLogLine:
		repeatLine(&hooks.Logger, f.Body)
		c.sender.send(wire.KindLogTaken, 0, encode(wire.Integer, len(f.Body)))
	case wire.KindNotice:
		if hooks.Notice != nil {
			hooks.Notice(string(f.Body))
		}
	case wire.KindCredit:
		return with(f, codeCredit, c.input.giveBack)
	case wire.KindSpawn:
		return with(f, codeSpawnRequest, func(r daemon.SpawnRequest) {
			if hooks.Spawn != nil {
				hooks.Spawn(r)
			}
		})
	default:
		return fmt.Errorf("message of kind %#x, which a node does not send", uint16(f.Kind))
	}
	return nil
}

// hearEvent takes an event, and tells the node when it may send more.
func (c *Client) hearEvent(e daemon.Event) {
	c.output.expect(&e)
	c.report(e)
	if c.arrived++; c.arrived == eventWindow/4 {
		c.sender.send(wire.KindEventsTaken, 0, encode(wire.Integer, c.arrived))
		c.arrived = 0
	}
}

// with calls f with the decoded body of a message.
func with[T any](m *wire.Frame, code func(*wire.Coder, *T), f func(v T)) error {
	v, err := decode(m, code)
	if err == nil {
		f(v)
	}
	return err
}

// repeatLine repeats a line of the node's log in the log of the front end, which has its own time.
func repeatLine(logger *zerolog.Logger, line []byte) {
	var fields map[string]any
	from := json.NewDecoder(bytes.NewReader(line))
	from.UseNumber() // numbers stay as they are
	if from.Decode(&fields) != nil {
		return // no line of zerolog
	}
	level, _ := fields[zerolog.LevelFieldName].(string)     // empty: none
	message, _ := fields[zerolog.MessageFieldName].(string) // empty: none
	for _, name := range []string{zerolog.LevelFieldName, zerolog.MessageFieldName, zerolog.TimestampFieldName} {
		delete(fields, name)
	}
	parsed, err := zerolog.ParseLevel(level)
	if err != nil {
		parsed = zerolog.NoLevel
	}
	logger.WithLevel(parsed).Fields(fields).Msg(message) // ends nothing, whatever the level
}
