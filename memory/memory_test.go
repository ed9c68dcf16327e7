package memory

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func candidates(t *rapid.T) Candidate {
	return Candidate{
		Ref:   Ref{Kind: rapid.SampledFrom([]Kind{KindEpisode, KindMemory}).Draw(t, "kind"), ID: rapid.Int64Range(1, 4).Draw(t, "id")},
		Block: rapid.Int32Range(0, 2).Draw(t, "block"),
		Key:   rapid.SampledFrom([]float64{-1, 0, .5, 1}).Draw(t, "key"),
	}
}

// RR-224, BR-033: one total order, whatever the order of arrival.
func TestCompareIsATotalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := candidates(t), candidates(t), candidates(t)
		if Compare(a, b) != -Compare(b, a) {
			t.Fatalf("%v against %v is not antisymmetric", a, b)
		}
		if Compare(a, b) <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
			t.Fatalf("%v, %v, %v are not transitive", a, b, c)
		}
		if (Compare(a, b) == 0) != (a == b) {
			t.Fatalf("%v and %v tie without being equal", a, b)
		}
	})
}

func TestOrderIsKeyThenKindThenIDThenBlock(t *testing.T) {
	want := []Candidate{
		{Ref: Ref{KindMemory, 9}, Key: 2},
		{Ref: Ref{KindEpisode, 7}, Key: 1},
		{Ref: Ref{KindMemory, 3}, Key: 1},
		{Ref: Ref{KindMemory, 3}, Key: 1, Block: 1},
		{Ref: Ref{KindMemory, 10}, Key: 1},
		{Ref: Ref{KindEpisode, 1}, Key: 0},
	}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(want).Draw(t, "arrival")
		slices.SortFunc(got, Compare)
		if !slices.Equal(got, want) {
			t.Fatalf("order %v, want %v", got, want)
		}
	})
}

// RR-439, RR-440, RR-441: absent, empty and named axes.
func TestScopeContains(t *testing.T) {
	x, pool := "x", ""
	scopes := []struct {
		name             string
		project, channel *string
		want             string // cells of agent a that are visible
	}{
		{"both absent", nil, nil, "-/- -/c -/d x/- x/c x/d y/- y/c y/d"},
		{"global pool", &pool, nil, "-/- -/c -/d"},
		{"project x", &x, nil, "-/- -/c -/d x/- x/c x/d"},
		{"empty channel", nil, &pool, "-/- -/c -/d x/- x/c x/d y/- y/c y/d"},
		{"channel c", nil, new("c"), "-/- -/c x/- x/c y/- y/c"},
		{"project x, channel c", &x, new("c"), "-/- -/c x/- x/c"},
	}
	name := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for _, s := range scopes {
		var got []string
		for _, agent := range []string{"a", "b", ""} {
			for _, project := range []string{"", "x", "y"} {
				for _, channel := range []string{"", "c", "d"} {
					if (Scope{Agent: "a", Project: s.project, Channel: s.channel}).Contains(Cell{agent, project, channel}) {
						if agent != "a" {
							t.Errorf("%s sees agent %q", s.name, agent)
						}
						got = append(got, name(project)+"/"+name(channel))
					}
				}
			}
		}
		if strings.Join(got, " ") != s.want {
			t.Errorf("%s sees %v, want %s", s.name, got, s.want)
		}
	}
}

// RR-435: the two id spaces are independent, and only the canonical form is a ref.
func TestRefs(t *testing.T) {
	for _, s := range []string{"mem:1", "ep:1", "mem:9223372036854775807"} {
		r, err := ParseRef(s)
		if err != nil || r.String() != s {
			t.Errorf("%s became %v, %v", s, r, err)
		}
	}
	for _, s := range []string{"", "mem", "mem:", "mem:0", "mem:-1", "mem:01", "mem:+1", "mem: 1", "mem:1 ", "MEM:1", "blk:1", "mem:1x", "mem:9223372036854775808", "記憶:1"} {
		if _, err := ParseRef(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want it refused", s, err)
		}
	}
}

func TestTextsAreRefusedWithFieldLimitAndNextStep(t *testing.T) {
	long := strings.Repeat("あ", 21)
	for _, c := range []struct {
		err  error
		want string
	}{
		{CheckText("content", "a\x00b", 20), "NUL at byte 1"},
		{CheckText("content", "ab\xff", 20), "UTF-8 at byte 2"},
		{CheckText("content", long, 20), "21 code points"},
		{CheckContent("content", " \n", 20), "is empty"},
		{CheckName("project", "a\u202eb"), "U+202E"},
		{CheckName("project", "a\nb"), "U+000A"},
		{CheckName("project", " a"), "space"},
		{CheckName("project", strings.Repeat("x", MaxName+1)), "201 code points"},
		{Scope{}.Check(), "agent: is empty"},
		{CheckJSON("metadata", []byte(`{"a":"\ud83d"}`)), `\ud83d at byte 6`},
		{CheckJSON("metadata", []byte(`{"a":"\ude00"}`)), "lone surrogate"},
		{CheckJSON("metadata", []byte(`"\ud83d\u0041"`)), "lone surrogate"},
		{CheckJSON("metadata", []byte(`"\u0000"`)), "NUL"},
	} {
		var field *FieldError
		if !errors.As(c.err, &field) || !strings.Contains(c.err.Error(), c.want) || field.Field == "" || field.Next == "" || field.Limit == "" && field.Problem != "is empty" {
			t.Errorf("%v, want %q with field, limit and next step", c.err, c.want)
		}
	}
	for _, err := range []error{
		CheckText("content", strings.Repeat("あ", 20), 20),
		CheckText("content", "右から左 \u202e まで", 20),
		CheckName("project", "経理 2026 🙂"),
		CheckJSON("metadata", []byte(`{"a":"\ud83d\ude00 \\ud800 \u3042"}`)),
	} {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, s := range []string{"2026-11-30T09:00:00+09:00", "2026-11-30T00:00:00Z", "2026-11-30T00:00:00.250-03:30", "0001-01-01T00:00:00Z", ""} {
		got, err := ParseTime("time", s)
		if err != nil || got.String() != s {
			t.Errorf("%q became %q, %v", s, got, err)
		}
		raw, err := json.Marshal(got)
		var back Time
		if err != nil || json.Unmarshal(raw, &back) != nil || back != got {
			t.Errorf("%q does not survive JSON: %s %v", s, raw, back)
		}
	}
	for _, s := range []string{"2026-11-30", "2026-11-30T09:00:00", "2026-11-30 09:00:00Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "2016-12-31T23:59:60Z", "2026-02-30T00:00:00Z", "昨日", "1735689600"} {
		if got, err := ParseTime("time", s); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "time: ") || !strings.Contains(err.Error(), "limit: ") {
			t.Errorf("%q became %v, %v; want it refused by name with a limit", s, got, err)
		}
	}
	instant := time.Date(2026, 3, 1, 23, 30, 0, 0, time.FixedZone("", 9*3600))
	if got := TimeOf(instant); !got.Std().Equal(instant) || got.Std().Day() != 1 {
		t.Errorf("%v became %v", instant, got.Std())
	}
}

// BR-002: spans count code points and are half-open.
func TestSpansAreHalfOpenCodePoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := []rune(rapid.StringOf(rapid.RuneFrom([]rune("ab é 日本語 中文 😀"))).Draw(t, "text"))
		text := string(runes)
		start := rapid.IntRange(-1, len(runes)+1).Draw(t, "start")
		end := rapid.IntRange(-1, len(runes)+2).Draw(t, "end")
		part, ok := Span{start, end}.Slice(text)
		inside := start >= 0 && start <= end && end <= len(runes)
		if ok != inside || ok && part != string(runes[start:end]) {
			t.Fatalf("[%d,%d) of %q is %q, %v", start, end, text, part, ok)
		}
		n := rapid.IntRange(0, len(runes)+2).Draw(t, "n")
		prefix, cut := Prefix(text, n)
		if prefix != string(runes[:min(n, len(runes))]) || cut != (n < len(runes)) {
			t.Fatalf("prefix %d of %q is %q, %v", n, text, prefix, cut)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("mem:7", "2026-11-30T09:00:00+09:00", []byte(`{"a":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, ref, when string, raw []byte) {
		if r, err := ParseRef(ref); err == nil && r.String() != ref {
			t.Errorf("ref %q reads back as %q", ref, r)
		}
		if w, err := ParseTime("time", when); err == nil && !w.IsZero() {
			if again, err := ParseTime("time", w.String()); err != nil || again != w {
				t.Errorf("time %q reads back as %v, %v", when, again, err)
			}
		}
		var before any
		if CheckJSON("raw", raw) == nil && json.Unmarshal(raw, &before) == nil {
			if text, ok := before.(string); ok && strings.ContainsRune(text, '\uFFFD') && !strings.Contains(string(raw), "\uFFFD") && !strings.Contains(strings.ToLower(string(raw)), `\ufffd`) {
				t.Errorf("%q decodes to a replaced text %q", raw, text)
			}
		}
	})
}
