package responder

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
)

// process is the tier Process: the keeper answers.
type process struct {
	at     unsafe.Pointer // the page
	keeper *keeper
}

// openProcess starts a keeper that answers. Every failure is a *TierError.
func openProcess(r *Responder) (source, error) {
	if len(r.cfg.Keeper) == 0 {
		return nil, &TierError{Process, "a command of the keeper", nil}
	}
	p, err := shareProcess(r)
	if err == nil {
		if err = p.keeper.start(); err == nil {
			return p, nil
		}
		err = errors.Join(err, p.close())
	}
	missing := "a keeper that answers"
	if errors.Is(err, errRealTime) {
		missing = "CAP_SYS_NICE, or a limit of real-time priorities (RLIMIT_RTPRIO)"
	}
	return nil, &TierError{Process, missing, err}
}

// shareProcess makes what the keeper gets: the page and the socket.
func shareProcess(r *Responder) (*process, error) {
	begun, err := xunix.StartTime(os.Getpid())
	if err != nil {
		return nil, err
	}
	memory, err := xunix.Memfd("goshmem-responder", pageSize)
	if err != nil {
		return nil, err
	}
	at, err := xunix.Map(int(memory.Fd()), pageSize, true)
	if err == nil {
		(*page)(at).set(&r.cfg, r.addr, os.Getpid(), begun)
		var socket *os.File
		if socket, err = r.socket.File(); err == nil {
			return &process{at, newKeeper(&r.cfg, Process, memory, socket)}, nil
		}
		err = errors.Join(err, xunix.Unmap(at, pageSize))
	}
	return nil, errors.Join(fmt.Errorf("share memory with the keeper: %w", err), memory.Close())
}

func (p *process) shared() *page { return (*page)(p.at) }

func (p *process) startOf(pid int) (uint64, error) { return xunix.StartTime(pid) }

func (p *process) owns(pid int) bool { return p.keeper.owns(pid) }

func (p *process) close() error {
	p.keeper.stop()
	return xunix.Unmap(p.at, pageSize)
}
