package daemon

import (
	"os"

	"github.com/goshmem/goshmem/internal/xunix"
)

// PTY says whether the PEs write their standard output to pseudo terminals, where
// programs mostly do not hold it back as they do with pipes. Standard error stays
// a pipe of its own, also with Config.Merge.
type PTY struct {
	On bool
	// Asked says that the user wants them, and is told if there are none.
	Asked bool
	// Screen is the terminal whose window size they have. Nil: they have none.
	Screen *os.File
}

// openPTY opens a pseudo terminal for the standard output of a PE; nil: it is to be a pipe.
func (s *Step) openPTY() (read, terminal *os.File) {
	if !s.cfg.PTY.On {
		return nil, nil
	}
	read, terminal, err := xunix.OpenOutputPTY()
	if err != nil {
		s.noPTY.Do(func() { s.missPTY(err) })
		return nil, nil
	}
	s.fit(read)
	return read, terminal
}

// missPTY tells that there are no pseudo terminals. Who has not asked for them gets
// what there was before.
func (s *Step) missPTY(err error) {
	if s.cfg.PTY.Asked {
		s.notice("--pty: %v; the PEs write to pipes instead", err)
		return
	}
	s.cfg.Logger.Warn().Err(err).Msg("the PEs write to pipes")
}

// fit gives a pseudo terminal the window size of the user's.
func (s *Step) fit(pty *os.File) {
	if s.cfg.PTY.Screen == nil {
		return
	}
	conn, err := pty.SyscallConn()
	if err == nil {
		err = xunix.CopyWindow(conn, s.cfg.PTY.Screen.Fd())
	}
	if err != nil {
		s.cfg.Logger.Debug().Err(err).Msg("window size of a PE's output")
	}
}

// Resize gives the outputs of all PEs the window size that the user's terminal has
// now.
func (s *Step) Resize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.started() {
		s.resize(p)
	}
}

// resize does that for the outputs of one PE.
func (s *Step) resize(p *proc) {
	for _, o := range p.outlets {
		if o.pty {
			s.fit(o.File)
		}
	}
}
