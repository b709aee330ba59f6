package wasm

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// For all sets of written pages, the plan covers each byte once, in order, and
// every page that most calls wrote is hot unless there are too many.
func TestPlanCoversAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		written := rapid.SliceOfN(rapid.Uint8Range(0, looks), 1, 900).Draw(t, "written")
		plan := planReset(written)
		at, hot, last := 0, 0, false
		for i, s := range plan {
			if s.from != at || s.to <= s.from || s.from%osPage != 0 || i > 0 && s.hot == last {
				t.Fatalf("span %d is %+v, after byte %d", i, s, at)
			}
			at, last = s.to, s.hot
			for p := s.from / osPage; p < s.to/osPage; p++ {
				if s.hot {
					hot++
				} else if written[p] >= usual && len(plan) > 1 {
					t.Fatalf("page %d was written by %d calls and is dropped", p, written[p])
				}
			}
		}
		if at != len(written)*osPage || hot > mostHot {
			t.Fatalf("the plan ends at %d of %d, %d hot pages", at, len(written)*osPage, hot)
		}
	})
}

// For all writes, before and after the plan is made, a memory that was reset
// shows the image.
func TestResetShowsTheImage(t *testing.T) {
	const size = 8 * pageSize
	rapid.Check(t, func(t *rapid.T) {
		first := &linear{limit: size}
		first.Allocate(size, size)
		defer first.Free()
		fill := first.Reallocate(size)
		for i := range fill {
			fill[i] = byte(i/osPage) * byte(i%3)
		}
		want := bytes.Clone(fill)
		im, err := newSharedImage(fill)
		if err != nil {
			t.Fatal(err)
		}
		defer im.close()
		if err := im.attach(first); err != nil {
			t.Fatal(err)
		}
		usually := rapid.SliceOfN(rapid.IntRange(0, size-1), 0, 40).Draw(t, "usually")
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			seldom := rapid.SliceOfN(rapid.IntRange(0, size-1), 0, 8).Draw(t, "seldom")
			for _, at := range append(seldom, usually...) {
				first.bytes()[at] ^= 0xff
			}
			if err := im.reset(first); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first.bytes(), want) {
				t.Fatal("the memory shows something else")
			}
		}
	})
}

// To look at calls costs no memory: pages that no call touched are not made.
func TestLookingMakesNoPages(t *testing.T) {
	const size = 256 * pageSize
	l := &linear{limit: size}
	l.Allocate(size, size)
	defer l.Free()
	l.Reallocate(size)[5*osPage] = 1
	im, err := newSharedImage(l.bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer im.close()
	if err := im.attach(l); err != nil {
		t.Fatal(err)
	}
	for range looks {
		l.bytes()[7*pageSize] = 1
		l.bytes()[5*osPage] = 2
		if err := im.reset(l); err != nil {
			t.Fatal(err)
		}
	}
	pages := 0
	for _, b := range im.resident() {
		pages += int(b & 1)
	}
	if pages > 64 { // those of two places, and what the kernel reads along
		t.Errorf("%d of %d pages are there", pages, size/osPage)
	}
	if plan := im.plan.Load(); plan == nil || len(*plan) != 5 || !(*plan)[1].hot || !(*plan)[3].hot {
		t.Errorf("the plan is %+v", plan)
	}
}
