package daemon

import (
	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Surroundings are what PEs have from the process that starts a job, and would have from a daemon otherwise. They are plain
// data, which another process can be sent.
type Surroundings struct {
	Umask     int    // of files that PEs make; -1: not known
	OpenFiles uint64 // how many files a PE may have open, its soft limit; 0: not known, or that of the step's own children
}

// SurroundingsHere returns those that children of this process have.
func SurroundingsHere(logger zerolog.Logger) Surroundings {
	files, err := xunix.ChildOpenFiles()
	if err != nil {
		logger.Warn().Err(err).Msg("PEs have the limit of open files that daemons have")
	}
	return Surroundings{Umask: xunix.Umask(), OpenFiles: files}
}

// Adopt makes the mask that of this process, from which PEs inherit it. Only a process that runs one step, for a front end
// elsewhere, may call it.
func (s *Surroundings) Adopt() {
	if s.Umask >= 0 {
		xunix.SetUmask(s.Umask)
	}
}

// oomScore is what counts against PEs when a node has too little memory. Its daemon is the only process that can tell other
// nodes what has become of them, and has none: the kernel is to end PEs first.
const oomScore = 500

// surround gives a PE that waits before its first instruction what it does not inherit.
func (st *starter) surround(p *localPE) {
	if most := st.cfg.Surroundings.OpenFiles; most > 0 {
		got, err := xunix.SetOpenFiles(p.pid, most)
		if err != nil || got < most {
			st.logger.Warn().Err(err).Stringer("pe", p.id).Uint64("has", got).Uint64("wanted", most).Msg("limit of open files")
		}
	}
	if p.job.share.hasOthers() {
		if err := xunix.RaiseOOMScore(p.pid, oomScore); err != nil {
			st.logger.Warn().Err(err).Stringer("pe", p.id).Msg("the kernel may take the daemon for lack of memory, not this PE")
		}
	}
}
