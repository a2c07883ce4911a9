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
	// Window is the window size that they have until Resize. Zero: they have none.
	Window xunix.Window
}

// openPTY opens a pseudo terminal for the standard output of a PE; nil: it is to be a pipe.
func (out *outputs) openPTY() (read, terminal *os.File) {
	if !out.cfg.PTY.On {
		return nil, nil
	}
	read, terminal, err := xunix.OpenOutputPTY()
	if err != nil {
		out.noPTY.Do(func() { out.reportNoPTY(err) })
		return nil, nil
	}
	out.fitWindow(read)
	return read, terminal
}

// reportNoPTY reports that there are no pseudo terminals: to the user if the user has asked for them, otherwise to the log.
func (out *outputs) reportNoPTY(err error) {
	if out.cfg.PTY.Asked {
		out.reporter.notice("--pty: %v; the PEs write to pipes instead", err)
		return
	}
	out.reporter.logger.Warn().Err(err).Msg("the PEs write to pipes")
}

// fitWindow gives a pseudo terminal the window size of the user's.
func (out *outputs) fitWindow(pty *os.File) {
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.window == (xunix.Window{}) {
		return
	}
	if err := xunix.SetWindow(pty, out.window); err != nil {
		out.reporter.logger.Debug().Err(err).Msg("window size of a PE's output")
	}
}

// setWindow notes the window size that the user's terminal has now.
func (out *outputs) setWindow(w xunix.Window) {
	out.mu.Lock()
	defer out.mu.Unlock()
	out.window = w
}

// resize gives the pseudo terminals of a PE the window size that the user's terminal has now.
func (out *outputs) resize(p *localPE) {
	for _, o := range p.outlets {
		if o.pty {
			out.fitWindow(o.File)
		}
	}
}
