package client

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// PublishOptions say which processes may look published values up, and how long the values stay.
type PublishOptions struct {
	Range   codec.Range        // the zero value stands for the session: all jobs of the same run
	Persist *codec.Persistence // nil: until the last process of this application has ended
	Members []codec.Proc       // the processes of codec.RangeCustom
	Users   []uint32           // users other than this process's own who may read the values
}

// Publish offers values to other processes under keys that are unique in their range, all of them or none.
//
//   - Completion: on return, others can look the values up.
//   - Errors: ErrExists for a key that is published already; a StatusError for a limit of the server or for invalid
//     options.
func (c *Client) Publish(ctx context.Context, values []codec.KVal, opts PublishOptions) error {
	r := &codec.PublishRequest{UID: uint32(os.Geteuid()), Info: rangeInfos(opts.Range, opts.Members)}
	if opts.Persist != nil {
		v := codec.Value{Type: codec.TypePersist, Data: uint8(*opts.Persist)}
		r.Info = append(r.Info, codec.Info{Key: codec.KeyPersistence, Value: v})
	}
	if len(opts.Users) > 0 {
		elems := make([]any, len(opts.Users))
		for i, uid := range opts.Users {
			elems[i] = uid
		}
		users := codec.Value{Type: codec.TypeDataArray, Data: codec.Array{Type: codec.TypeUint32, Elems: elems}}
		permissions := codec.InfosValue(codec.Info{Key: codec.KeyAccessUserIDs, Value: users})
		r.Info = append(r.Info, codec.Info{Key: codec.KeyAccessPermissions, Value: permissions})
	}
	for _, kv := range values {
		if err := checkKey("publish", kv.Key); err != nil {
			return err
		}
		if strings.HasPrefix(kv.Key, "pmix.") {
			return fmt.Errorf("pmix publish: key %q, want a key without the prefix pmix., which directives have", kv.Key)
		}
		r.Info = append(r.Info, codec.Info{Key: kv.Key, Value: kv.Value})
	}
	return c.session.requestStatus(ctx, "publish", r)
}

func rangeInfos(rng codec.Range, members []codec.Proc) []codec.Info {
	var infos []codec.Info
	if rng != codec.RangeUndef {
		infos = append(infos, codec.Info{Key: codec.KeyRange, Value: codec.Value{Type: codec.TypeDataRange, Data: rng}})
	}
	if len(members) > 0 {
		infos = append(infos, codec.Info{Key: codec.KeyEventCustomRange, Value: codec.ProcsValue(members...)})
	}
	return infos
}

// LookupOptions say which publishers' values a lookup accepts, and whether it waits for them.
type LookupOptions struct {
	Range   codec.Range   // the publishers, relative to this process; the zero value stands for the session
	Members []codec.Proc  // the processes of codec.RangeCustom
	Wait    bool          // wait until the values are published
	Count   int           // with Wait, how many values suffice; zero stands for all
	Timeout time.Duration // ends the wait with ErrTimeout; counted in whole seconds, rounded up
}

// Lookup returns published values with their publishers, in the order of the keys. Of several values under one key, the
// one with the narrowest range wins.
//
//   - Errors: ErrNotFound when there is none; ErrPartial, with the values found, when some are missing;
//     ErrNoPermission; ErrTimeout; the context's.
func (c *Client) Lookup(ctx context.Context, keys []string, opts LookupOptions) ([]codec.PData, error) {
	op := "lookup"
	if len(keys) > 0 {
		op += " " + keys[0]
	}
	r := &codec.LookupRequest{UID: uint32(os.Geteuid()), Keys: keys, Info: rangeInfos(opts.Range, opts.Members)}
	if opts.Wait {
		count := max(0, min(opts.Count, 1<<31-1))
		r.Info = append(r.Info, codec.Info{Key: codec.KeyWait, Value: codec.IntValue(int32(count))})
	}
	r.Info = appendTimeout(r.Info, opts.Timeout)
	answer, err := c.session.request(ctx, op, r)
	if err != nil {
		return nil, err
	}
	reply, err := codec.DecodeLookupReply(answer)
	if err != nil {
		return nil, fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	return reply.Data, statusError(op, reply.Status)
}

// Unpublish withdraws values that this process has published; without keys, all of them. A defined range restricts it
// to values that were published to that range.
//
//   - Errors: ErrNotFound; ErrNoPermission for a key of another process; ErrPartial when some of the keys do not exist.
func (c *Client) Unpublish(ctx context.Context, keys []string, rng codec.Range) error {
	r := &codec.UnpublishRequest{UID: uint32(os.Geteuid()), Keys: keys, Info: rangeInfos(rng, nil)}
	return c.session.requestStatus(ctx, "unpublish", r)
}
