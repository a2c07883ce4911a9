package xunix

import (
	"errors"
	"io"
	"slices"
	"testing"
)

func TestMux(t *testing.T) {
	m, err := NewMux()
	try(t, err)
	defer func() { try(t, m.Close()) }()
	a, theirs, err := m.Pair()
	try(t, err)
	b, other, err := m.Pair()
	try(t, err)
	ready := func(want ...uint64) {
		t.Helper()
		m.Wake() // whatever there is, Wait returns
		got, err := m.Wait()
		slices.Sort(got)
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("ready %d, %v, want %d", got, err, want)
		}
	}
	buf := make([]byte, 4)
	ready()
	if _, err := m.Read(a, buf); !errors.Is(err, ErrAgain) {
		t.Errorf("read where nothing is: %v", err)
	}
	_, err = theirs.WriteString("hello")
	try(t, err)
	ready(a)
	n, err := m.Read(a, buf)
	try(t, err)
	ready(a) // as long as something is left
	if n != 4 || string(buf) != "hell" {
		t.Errorf("read %q", buf[:n])
	}
	n, err = m.Read(a, buf)
	try(t, err)
	if n != 1 || buf[0] != 'o' {
		t.Errorf("read %q", buf[:n])
	}
	try(t, m.Write(a, "back"))
	_, err = io.ReadFull(theirs, buf)
	try(t, err)
	if string(buf) != "back" {
		t.Errorf("read %q", buf)
	}
	try(t, other.Close())
	m.HangUp(a)
	ready(a, b)
	for _, id := range []uint64{a, b} {
		if _, err := m.Read(id, buf); !errors.Is(err, io.EOF) {
			t.Errorf("read at the end: %v", err)
		}
		m.Drop(id)
		if _, err := m.Read(id, buf); !errors.Is(err, ErrAgain) {
			t.Errorf("read what is dropped: %v", err)
		}
		if err := m.Write(id, "x"); err == nil {
			t.Error("write to what is dropped")
		}
	}
	ready()
	if n, err := theirs.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the other end reads %d, %v", n, err)
	}
	try(t, theirs.Close())
}

// TestMuxWaits: Wait blocks until something happens.
func TestMuxWaits(t *testing.T) {
	m, err := NewMux()
	try(t, err)
	defer func() { try(t, m.Close()) }()
	id, theirs, err := m.Pair()
	try(t, err)
	got := make(chan []uint64)
	go func() {
		for range 2 {
			ready, _ := m.Wait()
			got <- slices.Clone(ready)
		}
	}()
	m.Wake()
	if ready := <-got; len(ready) != 0 {
		t.Errorf("woken with %d", ready)
	}
	try(t, theirs.Close())
	if ready := <-got; !slices.Equal(ready, []uint64{id}) {
		t.Errorf("ready %d, want %d", ready, id)
	}
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
