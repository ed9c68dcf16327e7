package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"recalld/memory"
)

func (b *bench) contents(refs ...string) *ContentsResponse {
	b.t.Helper()
	a, err := b.GetContents(b.t.Context(), ContentsRequest{Agent: "mia", Refs: refs})
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// RR-438, RR-236, BR-086: whole rows and exact ranges in the order asked;
// what cannot be given is named in exactly one list.
func TestContents(t *testing.T) {
	b := open(t, nil)
	text := "記憶の試験 is 23 code points"
	ref := b.put("mia", say(text))[0]
	ep := b.put("mia", StoreItem{Type: "episode", Summary: "an episode"})[0]
	revision := memory.Revision(text)
	a := b.contents(ep, ref+"#chars=2-5", ref+"#chars=0-23&rev="+revision, "mem:99", "nonsense", ref+"#chars=0-24", ref+"#node=0-1", ref+"#chars=3-3", ref+"#chars=5-2",
		ref+"#chars=0-5&rev="+strings.Repeat("0", 64), ref+"#chars=0-5&rev=short", ref+"#", ref+"#chars=-1-2", ep, ref+"#chars=0-5&chars=1-2", ref+"#rev="+revision)
	var got []string
	for _, row := range a.Rows {
		got = append(got, fmt.Sprintf("%s %q %v %d", row.Ref, row.Content, row.ContentTruncated, row.ContentLen))
		if row.Revision == "" {
			t.Errorf("%s has no revision", row.Ref)
		}
	}
	want := []string{
		ep + ` "an episode" false 0`,
		ref + `#chars=2-5 "の試験" true 23`,
		ref + `#chars=0-23&rev=` + revision + fmt.Sprintf(" %q false 0", text),
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	if want := []string{"mem:99", "nonsense"}; !slices.Equal(a.Missing, want) {
		t.Errorf("missing %v", a.Missing)
	}
	if len(a.Unresolved) != 10 || len(a.Deferred) != 0 {
		t.Errorf("unresolved %v, deferred %v", a.Unresolved, a.Deferred)
	}
}

// BR-087, RR-236: a range that was measured on another text is refused once the
// record was rewritten; the whole row is still given.
func TestStaleRangeIsRefused(t *testing.T) {
	b := open(t, nil)
	ref := b.put("mia", say("the staging port is 8080"))[0]
	handle := ref + "#chars=4-11&rev=" + memory.Revision("the staging port is 8080")
	if a := b.contents(handle); len(a.Rows) != 1 || a.Rows[0].Content != "staging" {
		t.Fatalf("%s", encode(t, a))
	}
	if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: ref, Content: pointer("THE STAGING PORT IS 8443")}); err != nil {
		t.Fatal(err)
	}
	if a := b.contents(handle, ref); !slices.Equal(a.Unresolved, []string{handle}) || len(a.Rows) != 1 || a.Rows[0].Content != "THE STAGING PORT IS 8443" {
		t.Errorf("%s", encode(t, a))
	}
}

// RR-438: the first row always, the rest within the budget; what is past it is
// deferred in order; 21 refs and none are refused.
func TestContentsBudget(t *testing.T) {
	b := open(t, map[string]string{"answer.contents_budget": "1000", "content.max_chars": "5000"})
	refs := b.put("mia", say("1"+strings.Repeat("a", 1200)), say("2"+strings.Repeat("b", 399)), say("3"+strings.Repeat("c", 599)), say("4"))
	a := b.contents(refs...)
	if !slices.Equal(refsIn(a.Rows), refs[:1]) || !slices.Equal(a.Deferred, refs[1:]) || a.Budget != 1000 {
		t.Errorf("a first row beyond the budget: %v, deferred %v", refsIn(a.Rows), a.Deferred)
	}
	a = b.contents(refs[1:]...)
	if !slices.Equal(refsIn(a.Rows), refs[1:3]) || !slices.Equal(a.Deferred, refs[3:]) {
		t.Errorf("exactly the budget: %v, deferred %v", refsIn(a.Rows), a.Deferred)
	}
	if a := b.contents(refs[3]); a.Budget != 0 {
		t.Errorf("a budget is reported that cut nothing: %d", a.Budget)
	}
	for _, n := range []int{0, 21} {
		_, err := b.GetContents(t.Context(), ContentsRequest{Agent: "mia", Refs: make([]string, n)})
		var field *memory.FieldError
		if !errors.As(err, &field) || field.Field != "refs" || field.Next == "" {
			t.Errorf("%d refs: %v", n, err)
		}
	}
}

// Issue, Bad input: an unusable handle is named without being repeated whole.
func TestLongHandleIsNotRepeated(t *testing.T) {
	b := open(t, nil)
	ref := b.put("mia", say("short"))[0]
	a := b.contents(ref+"#node="+strings.Repeat("x", 1<<20), ref+"#\x00\xff", ref+"#node=1")
	if len(a.Unresolved) != 3 || len(a.Unresolved[0]) > 300 || !utf8.ValidString(a.Unresolved[1]) || a.Unresolved[2] != ref+"#node=1" {
		t.Errorf("%.600q", a.Unresolved)
	}
}

// RR-236, BR-002: for any text and range, what comes back is exactly the code
// points asked for, or nothing.
func TestRangesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 40, -1).Draw(t, "text")
		runes := []rune(text)
		start, end := rapid.IntRange(0, 45).Draw(t, "start"), rapid.IntRange(0, 45).Draw(t, "end")
		h, ok := parseHandle(fmt.Sprintf("mem:7#chars=%d-%d", start, end))
		if !ok || h.ref.ID != 7 {
			t.Fatal("the reference was not read")
		}
		row, given := h.row(memory.Record{Ref: h.ref, Content: text})
		if inside := start < end && end <= len(runes); given != inside {
			t.Fatalf("range %d-%d of %d code points: given %v", start, end, len(runes), given)
		}
		if given && row.Content != string(runes[start:end]) {
			t.Fatalf("got %q", row.Content)
		}
	})
}

// FuzzHandle: any text is read as a handle or refused; what is read names its
// own row.
func FuzzHandle(f *testing.F) {
	for _, s := range []string{"mem:1", "ep:7#chars=1-2", "mem:7#chars=100-240&rev=" + strings.Repeat("a", 64), "mem:7#node=2-3", "mem:0", "mem:7##", "mem:7#chars=1-2&", "mem:９"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, ok := parseHandle(s)
		if ok && !strings.HasPrefix(s, h.ref.String()) {
			t.Fatalf("%q was read as %s", s, h.ref)
		}
		if h.part != nil && (h.part.Start < 0 || h.part.Start >= h.part.End) {
			t.Fatalf("%q has the range %v", s, *h.part)
		}
	})
}
