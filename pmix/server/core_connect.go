package server

import "github.com/goshmem/goshmem/pmix/wire"

// connect makes processes of several jobs known to each other: a collective at whose end they have the descriptions of
// each other's jobs.
func (c *core) connect(at caller, r *wire.ConnectRequest) {
	if c.named(at, opConnect, r.Procs) {
		c.join(at, opConnect, r.Procs, r.Info)
	}
}

func (c *core) disconnect(at caller, r *wire.DisconnectRequest) {
	if c.named(at, opDisconnect, r.Procs) {
		c.join(at, opDisconnect, r.Procs, r.Info)
	}
}

// named refuses a request that leaves it open who takes part.
func (c *core) named(at caller, op Collective, procs []wire.Proc) bool {
	if len(procs) == 0 {
		c.refuse(at, wire.StatusErrBadParam, string(op)+": no processes named, want the participants")
	}
	return len(procs) > 0
}

// answerConnect tells each participant about the jobs of the others.
func (c *core) answerConnect(f *fence) {
	var spaces []*nspace // the processes are sorted
	for _, p := range f.procs {
		if n := len(spaces); n == 0 || spaces[n-1] != p.space {
			spaces = append(spaces, p.space)
		}
	}
	answers := make(map[*nspace][]byte, len(spaces))
	for _, p := range f.procs {
		at, ok := f.joined[p]
		if !ok {
			continue
		}
		if answers[p.space] == nil {
			var others [][]byte
			for _, s := range spaces {
				if s != p.space {
					others = append(others, s.info)
				}
			}
			answers[p.space] = wire.AppendConnectReply(nil, others...)
		}
		c.send(at.conn, at.tag, answers[p.space])
	}
}
