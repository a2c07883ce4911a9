package server

import "github.com/goshmem/goshmem/pmix/codec"

// connect serves a collective that makes processes of several jobs known to each other: at its end each participant
// gets the descriptions of the jobs of the others.
func (fs *fences) connect(at caller, r *codec.ConnectRequest) {
	if fs.requireNames(at, opConnect, r.Procs) {
		fs.joinCollective(at, opConnect, r.Procs, r.Info)
	}
}

// disconnect serves the collective that undoes connect. The server keeps no state about connects, so the participants
// only wait for each other.
func (fs *fences) disconnect(at caller, r *codec.DisconnectRequest) {
	if fs.requireNames(at, opDisconnect, r.Procs) {
		fs.joinCollective(at, opDisconnect, r.Procs, r.Info)
	}
}

// requireNames refuses a request that names no participant.
func (fs *fences) requireNames(at caller, op Collective, procs []codec.Proc) bool {
	if len(procs) == 0 {
		fs.refuse(at, codec.StatusErrBadParam, string(op)+": no processes named, want all participants")
	}
	return len(procs) > 0
}

// answerConnect sends each participant the descriptions of the jobs of the others.
func (fs *fences) answerConnect(f *fence) {
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
			answers[p.space] = codec.AppendConnectReply(nil, others...)
		}
		fs.send(at.conn, at.tag, answers[p.space])
	}
}
