package server

import (
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

func watchOf(period, drops uint32, more ...codec.Info) *codec.MonitorRequest {
	return &codec.MonitorRequest{
		Monitor: yes(codec.KeyMonitorHeartbeat), Error: codec.StatusMonitorHeartbeatAlert,
		Info: append([]codec.Info{
			info(codec.KeyMonitorHeartbeatTime, codec.Uint32Value(period)),
			info(codec.KeyMonitorHeartbeatDrops, codec.Uint32Value(drops)),
		}, more...),
	}
}

func cancel(id string) *codec.MonitorRequest {
	return &codec.MonitorRequest{Monitor: info(codec.KeyMonitorCancel, codec.StringValue(id))}
}

func (w *world) beat(rank codec.Rank) {
	w.step(event{kind: evFrame, conn: w.conns[rank], tag: codec.TagHeartbeat})
}

const alert0 = "MONITOR_HEARTBEAT_ALERT from 0 about 0"

func TestHeartbeats(t *testing.T) {
	w := started(t, 2)
	w.request(1, codes(codec.StatusMonitorHeartbeatAlert))
	w.request(0, codes(codec.StatusMonitorHeartbeatAlert)) // the monitored process is not told
	w.beat(0)                                              // no monitor yet
	w.request(0, watchOf(2, 1))
	w.log = nil
	for range 5 {
		w.beat(0)
		w.advance(2)
	}
	w.advance(2) // one beat may be missed
	w.expect()
	w.advance(2)
	w.expect("event 1 " + alert0)
	w.advance(20) // the alert comes once
	w.expect()
	w.beat(0) // a beat allows another alert
	w.advance(2)
	w.advance(2)
	w.expect()
	w.advance(2)
	w.expect("event 1 " + alert0)
	w.request(0, &codec.FinalizeRequest{})
	w.expect("finalized 0", "reply 0#103 ok")
	w.advance(20)
	w.expect()
	if at := w.core.deadline(); at != 0 {
		t.Errorf("deadline %d is left, want none", at)
	}
}

func TestWatchTerms(t *testing.T) {
	w, conns := twoJobs(t, 2)
	w.request(1, codes(-5000))
	w.requestOn(conns[0], codes(-5000))
	w.request(1, codes())
	r := watchOf(1, 0, info(codec.KeyRange, codec.Value{Type: codec.TypeDataRange, Data: codec.RangeSession}), yes(codec.KeyEventNonDefault),
		paths(codec.KeyMonitorID, "mine"))
	r.Error = -5000
	w.request(0, r)
	w.log = nil
	w.advance(1)
	w.expect("event 1 status -5000 from 0 about 0 nondefault", "event job-2.0 status -5000 from 0 about 0 nondefault")
	w.request(0, cancel("other"))
	w.request(0, cancel("mine"))
	w.request(0, watchOf(1, 0))
	w.request(0, cancel(""))
	w.request(0, cancel(""))
	w.expect("reply 0#102 ERR_NOT_FOUND", "reply 0#103 ok", "reply 0#104 ok", "reply 0#105 ok", "reply 0#106 ok")
	w.beat(0)
	w.advance(5)
	w.expect()
}

func TestUnfitMonitors(t *testing.T) {
	w := started(t, 1)
	w.request(0, watchOf(0, 1))
	w.request(0, watchOf(1, 1, info(codec.KeyMonitorHeartbeatTime, codec.StringValue("soon"))))
	w.request(0, watchOf(1, 1, info(codec.KeyRange, codec.Value{Type: codec.TypeDataRange, Data: codec.RangeCustom})))
	w.request(0, &codec.MonitorRequest{Monitor: paths("pmix.monitor.fmon", "/tmp/x")})
	w.expect(
		"refused monitor: pmix.monitor.btime is missing or 0, want a number of seconds", "reply 0#101 ERR_BAD_PARAM",
		"refused monitor: pmix.monitor.btime is soon (type 3), want a number, 0 or more", "reply 0#102 ERR_BAD_PARAM",
		"refused monitor: pmix.range is 6 (type 33), want a data range other than custom", "reply 0#103 ERR_BAD_PARAM",
		"reply 0#104 ERR_NOT_SUPPORTED",
	)
	for range maxWatches {
		w.request(0, watchOf(1, 0))
	}
	w.log = nil
	w.request(0, watchOf(1, 0))
	w.expect("refused monitor: the caller has 16 watches already, which is the limit", "reply 0#121 ERR_OUT_OF_RESOURCE")
}
